# SPDX-License-Identifier: MIT
# Connects, and gets a reference to a remote object. Usage: foolscap_reference.py FILE PORT [OPERATIONS]; the server writes
# its address to FILE. The end with the higher name decides how they talk, and only a client that does stalls.
import sys

import foolscap.api as foolscap
from twisted.internet import defer, reactor

import rounds


def tub_named(fits):
    while True:
        tub = foolscap.Tub()
        if fits(tub.getTubID()):
            return tub


def serve(file, port):
    tub = tub_named(lambda name: name < "e")
    tub.listenOn("tcp:%d:interface=127.0.0.1" % port)
    tub.setLocation("127.0.0.1:%d" % port)
    with open(file, "w") as out:
        out.write(tub.registerReference(foolscap.Referenceable(), "it"))
    tub.startService()


@defer.inlineCallbacks
def ask(address, count):
    certificate = tub_named(lambda name: name > "e").getCertData()
    times = []
    for _ in range(count + 1):
        tub = foolscap.Tub(certData=certificate)
        tub.startService()
        begun = rounds.now()
        yield tub.getReference(address)
        times.append(rounds.now() - begun)
        yield tub.stopService()
    rounds.report(times[1:])
    reactor.stop()


if len(sys.argv) == 3:
    serve(sys.argv[1], int(sys.argv[2]))
else:
    with open(sys.argv[1]) as file:
        address = file.read()
    ask(address, int(sys.argv[3])).addErrback(lambda error: (error.printTraceback(), reactor.stop()))
reactor.run()
