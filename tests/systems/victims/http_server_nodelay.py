# SPDX-License-Identifier: MIT
# `python3 -m http.server` with the cure that its own library has for its writers. Usage:
# http_server_nodelay.py DIRECTORY
import functools
import http.server
import sys


class Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True


server = http.server.ThreadingHTTPServer(
    ("127.0.0.1", 0), functools.partial(Handler, directory=sys.argv[1]))
print("listening on port %d" % server.server_address[1], flush=True)
server.serve_forever()
