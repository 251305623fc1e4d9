# SPDX-License-Identifier: MIT
# Answers a POST with its own body, with Python's server; "whole": in one write. Usage: http_echo.py [whole]
import http.server
import sys


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1 if sys.argv[1:] == ["whole"] else 0

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(201)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print("listening on port %d" % server.server_address[1], flush=True)
server.serve_forever()
