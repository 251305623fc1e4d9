# SPDX-License-Identifier: MIT
# POSTs over one connection. The head and the body are two writes. Usage: post PORT OPERATIONS
import std/[algorithm, httpclient, monotimes, os, sequtils, strutils, times]

let client = newHttpClient()
var spent: seq[int64]
for _ in 0 .. paramStr(2).parseInt:
  let begun = getMonoTime()
  doAssert client.postContent("http://127.0.0.1:" & paramStr(1) & "/", "x".repeat(100)).len > 0
  spent.add (getMonoTime() - begun).inMicroseconds
spent = spent[1 .. ^1].sorted
echo "operations ", spent.len, " median_us ", spent[spent.len div 2], " max_us ", spent[^1], " stalls ", spent.countIt(it > 20_000)
