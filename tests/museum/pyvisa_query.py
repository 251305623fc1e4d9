# SPDX-License-Identifier: MIT
# Two commands to an instrument, and then a query. Usage: pyvisa_query.py PORT OPERATIONS
import sys

import pyvisa

import rounds

address = "TCPIP::127.0.0.1::%s::SOCKET" % sys.argv[1]
with pyvisa.ResourceManager("@py").open_resource(address, read_termination="\n", write_termination="\n") as instrument:
    def query():
        instrument.write("INST 0")
        instrument.write("CURR 0.1")
        assert instrument.query("SYST:ERR?") == "0"

    rounds.measure(query, int(sys.argv[2]))
