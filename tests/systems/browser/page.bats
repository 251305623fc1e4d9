# SPDX-License-Identifier: MIT
# Promise: In a browser, the page of diagnose fits phones and screens, and every number in it is in the JSON.

load ../../helpers/common

# browse WIDTH SCRIPT: the page's title after the script has run in it. A window of headless Chromium has at least 500 pixels, so
# the page is in a frame.
browse() {
    python3 - "$T" "$1" "$2" <<'PYTHON'
import html, sys
folder, width, script = sys.argv[1:]
page = open(folder + "/page.html", encoding="utf-8").read().replace("</body>", "<script>parent.postMessage((() => {" +
    script + "})(), '*')</script></body>")
open(folder + "/frame.html", "w", encoding="utf-8").write("<!DOCTYPE html><body><pre></pre><iframe width=%s height=6000 srcdoc=\"%s\">"
    "</iframe><script>onmessage = message => document.querySelector('pre').textContent = message.data</script>"
    % (width, html.escape(page)))
PYTHON
    timeout 60 chromium --headless --no-sandbox --disable-gpu --virtual-time-budget=3000 --dump-dom "file://$T/frame.html" 2>/dev/null |
        sed -n 's/.*<body><pre>\([^<]*\)<\/pre>.*/\1/p'
}

@test "at 400 and 1280 pixels only code is wider than the page, and every number is in the JSON" {
    command -v chromium >/dev/null || ns_skip "no chromium"
    ns_setup
    "$EXAMPLES/tcp_nodelay_server" --connections 0 0 0 >"$T/server" 3>&- &
    local server=$! width
    until grep -q port "$T/server"; do sleep 0.01; done
    "$PWD/build/nagleshim" diagnose --json="$T/o.json" --html "$T/page.html" -- "$EXAMPLES/tcp_nodelay_client" 127.0.0.1 \
        "$(grep -oE '[0-9]+$' "$T/server")" 30
    kill "$server"
    for width in 400 1280; do
        # The width of the page, and the elements that reach beyond it.
        [[ $(browse "$width" "return document.documentElement.scrollWidth + ' ' + [...document.querySelectorAll('body *')].filter(
            one => !one.closest('pre') && one.getBoundingClientRect().right > innerWidth).map(one => one.tagName)") == "$width " ]]
        # A line of prose that is cut off would be longer than its box.
        [[ -z $(browse "$width" "return [...document.querySelectorAll('p, dd, summary')].filter(
            one => one.scrollWidth > one.clientWidth + 1 && one.clientWidth).map(one => one.tagName).join()") ]]
    done
    # The control: code that scrolls is found by the same measure.
    [[ $(browse 400 "return [...document.querySelectorAll('pre')].some(one => one.scrollWidth > one.clientWidth)") == true ]]
    # What to do comes first, then what it costs and the packets of one stalled request, none of which is cut off; the
    # policy only on request. Each cure has its command, and the costs are those of all rows.
    browse 1280 "const all = (what, show) => [...document.querySelectorAll(what)].map(show).join();
        const picture = [...document.querySelectorAll('[aria-label=\"One stalled request\"] text')];
        const arrows = [...document.querySelectorAll('.send:not(.head), .ack:not(.head)')].map(one => one.getBoundingClientRect().top).sort((one, other) => one - other);
        return [all('h2', one => one.textContent), all('pre, button', one => !one.closest('details:not([open])')),
            all('.cost tr', one => one.cells.length), picture.some(one => one.getBoundingClientRect().left < 0),
            arrows.some((top, i) => top - arrows[i - 1] < 15),
            all('.cost td', one => one.textContent).includes(' 0.0 ms'), all('dt', one => one.textContent),
            [...document.querySelectorAll('dd')].filter(one => one.textContent.includes('nagleshim run -- ')).length,
            picture.map(one => [one.y.baseVal[0].value, one.textContent.replace(/[0-9.]+/g, 'N')]).filter(
                one => !/^N ms/.test(one[1])).sort((one, other) => one[0] - other[0]).map(one => one[1].replace(/^.*[(]/, '')),
            [...document.querySelectorAll('.head')].map(one => getComputedStyle(one).strokeDasharray).join(),
            (o.rows.find(row => row.example).role = 'server', show(),
                [...document.querySelectorAll('[aria-label=\"One stalled request\"] text')].map(one => one.textContent).includes('next request')),
            (o.rows.push(o.rows[0]), show(), document.querySelector('.cost td').textContent == 2 * o.rows[0].requests)].join(';')" >"$T/order"
    grep -qE "^What to do,What it costs,One stalled request,Connections,.*;true,true,false;2,2,2,3,3,3,3;false;false;false;cost,pattern,proof,(also slow,)*cure,cure,source,cost,reason;2;$(
        )client\),server\),write: N segment sent,write: N bytes held for N ms,delayed ACK,N bytes released,answer;none,none,none,none;true;true\$" "$T/order" || {
        cat "$T/order"
        false
    }
    browse 1280 "return [...document.querySelectorAll('dd, .verdict')].map(one => one.textContent).join(' ')" >"$T/text"
    python3 - "$T" <<'PYTHON'
import json, re, sys
text = open(sys.argv[1] + "/text").read()
raw = open(sys.argv[1] + "/o.json").read()
known = [float(n) for n in re.findall(r"[0-9]+(?:\.[0-9]+)?", raw)] + [0.1]
known += [row["ms"] / row["times"] for one in json.loads(raw)["rows"] for row in one["besides"]]
numbers = re.findall(r"[0-9]+(?:\.[0-9]+)?", text)
assert len(numbers) > 10, text
for number in numbers:
    places = len(number.partition(".")[2])
    assert any(abs(float(number) - n) <= 0.51 * 10 ** -places for n in known), (number, text)
PYTHON
}
