# SPDX-License-Identifier: MIT
# POSTs over one kept connection with Python's own client, which writes the head and the body in two pieces
# and sets TCP_NODELAY. Usage: http_post.py PORT OPERATIONS
import http.client
import sys

import rounds


def main(port, count):
    connection = http.client.HTTPConnection("127.0.0.1", port)

    def post():
        connection.request("POST", "/queue", body=rounds.PAGE)
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status == 201 and body == rounds.PAGE, "another answer"
        assert connection.sock is not None, "the connection was not kept"

    rounds.measure(post, count)


main(int(sys.argv[1]), int(sys.argv[2]))
