-- SPDX-License-Identifier: MIT
-- For wrk: requests the files of a directory in turn and compares every body with the file, byte by byte. Its
-- last line says how many were compared, how many were wrong, and how many errors wrk counted.

local threads = {}

function setup(thread)
    table.insert(threads, thread)
end

function init(args)
    checked, wrong, last = 0, 0, 0
    names, files = {}, {}
    for i = 2, #args do
        local file = assert(io.open(args[1] .. "/" .. args[i], "rb"))
        -- The largest would be all that two seconds have time for.
        if tonumber(args[i]) <= 1000000 then
            names[#names + 1] = args[i]
            files["/" .. args[i]] = file:read("*a")
        end
        file:close()
    end
    base = wrk.path
end

function request()
    last = last % #names + 1
    return wrk.format("GET", base .. names[last])
end

function response(status, headers, body)
    local path = headers["X-Path"]
    checked = checked + 1
    if status ~= 200 or path == nil or files[path] ~= body then
        wrong = wrong + 1
    end
end

function done(summary)
    local all, bad, e = 0, 0, summary.errors
    for _, thread in ipairs(threads) do
        all = all + thread:get("checked")
        bad = bad + thread:get("wrong")
    end
    io.write(string.format("checked %d wrong %d errors %d\n", all, bad,
        e.connect + e.read + e.write + e.status + e.timeout))
end
