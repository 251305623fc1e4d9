// SPDX-License-Identifier: MIT
// POSTs over one connection. The head and the body are two writes. Usage: post PORT OPERATIONS
const std = @import("std");

pub fn main() !void {
    const allocator = std.heap.page_allocator;
    const arguments = try std.process.argsAlloc(allocator);
    const url = try std.fmt.allocPrint(allocator, "http://127.0.0.1:{s}/", .{arguments[1]});
    const times = try allocator.alloc(u64, 1 + try std.fmt.parseInt(usize, arguments[2], 10));
    var client = std.http.Client{ .allocator = allocator };
    for (times) |*time| {
        var timer = try std.time.Timer.start();
        const answer = try client.fetch(.{ .location = .{ .url = url }, .method = .POST, .payload = "body" });
        if (answer.status != .created) return error.Answer;
        time.* = timer.read() / 1000;
    }
    const counted = times[1..];
    std.mem.sort(u64, counted, {}, std.sort.asc(u64));
    var stalls: usize = 0;
    for (counted) |time| stalls += @intFromBool(time > 20_000);
    try std.io.getStdOut().writer().print("operations {d} median_us {d} max_us {d} stalls {d}\n", .{ counted.len, counted[counted.len / 2], counted[counted.len - 1], stalls });
}
