# SPDX-License-Identifier: MIT
# A page of two parts. The second part comes later, as from another service. Usage: twisted_page.py PORT
import sys

from twisted.internet import reactor
from twisted.web import resource, server


class Page(resource.Resource):
    isLeaf = True

    def render_GET(self, request):
        request.setHeader("Content-Length", "400")
        request.write(b"x" * 100)
        reactor.callLater(0.001, self.end, request)
        return server.NOT_DONE_YET

    def end(self, request):
        request.write(b"x" * 300)
        request.finish()


reactor.listenTCP(int(sys.argv[1]), server.Site(Page()), interface="127.0.0.1")
reactor.run()
