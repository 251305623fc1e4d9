# SPDX-License-Identifier: MIT
# An array of 8192 bytes from Java. Usage: py4j_bytes.py PORT OPERATIONS
import sys

from py4j.java_gateway import GatewayParameters, JavaGateway

import rounds

gateway = JavaGateway(gateway_parameters=GatewayParameters(port=int(sys.argv[1])))
buffer = gateway.jvm.java.nio.ByteBuffer.allocate(8192)
rounds.measure(buffer.array, int(sys.argv[2]))
