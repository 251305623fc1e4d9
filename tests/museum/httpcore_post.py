# SPDX-License-Identifier: MIT
# POSTs over one persistent connection. Usage: httpcore_post.py PORT OPERATIONS
import sys

import httpcore

import rounds

address = "http://127.0.0.1:%s/queue" % sys.argv[1]
with httpcore.ConnectionPool() as pool:
    def post():
        assert pool.request("POST", address, content=rounds.PAGE).content == rounds.PAGE

    rounds.measure(post, int(sys.argv[2]))
