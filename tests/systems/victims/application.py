# SPDX-License-Identifier: MIT
# Answers a POST with 201, for servers that run somebody's application: as WSGI and as ASGI.
ANSWER = b"stored\n"
HEAD = [("Content-Type", "text/plain"), ("Content-Length", str(len(ANSWER)))]


def wsgi(environ, start_response):
    environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
    start_response("201 Created", HEAD)
    return [ANSWER]


async def asgi(scope, receive, send):
    assert scope["type"] == "http"
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 201,
                "headers": [(name.encode(), value.encode()) for name, value in HEAD]})
    await send({"type": "http.response.body", "body": ANSWER})
