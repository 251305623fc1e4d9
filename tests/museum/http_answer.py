# SPDX-License-Identifier: MIT
# Answers each request with what it brought, or with 400 bytes, in one write. Usage: http_answer.py
import http.server


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1

    def do_GET(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"x" * 400
        self.send_response(201 if self.command == "POST" else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_PUT = do_GET

    def log_request(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print("listening on port %d" % server.server_address[1], flush=True)
server.serve_forever()
