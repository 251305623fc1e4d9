# SPDX-License-Identifier: MIT
# Answers each line with the same line in two writes.
import socketserver


class Echo(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            self.wfile.write(line[:8])
            self.wfile.write(line[8:])


with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Echo) as server:
    print("listening on port", server.server_address[1], flush=True)
    server.serve_forever()
