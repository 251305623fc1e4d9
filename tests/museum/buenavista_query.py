# SPDX-License-Identifier: MIT
# A query, whose answer is several messages. Usage: buenavista_query.py PORT [OPERATIONS]
import sys

import rounds


def serve(port):
    from buenavista import core, postgres

    class Session(core.Session):
        def execute_sql(self, sql, params=None):
            return core.SimpleQueryResult("one", 1, core.BVType.INTEGER)

        def in_transaction(self):
            return False

        def close(self):
            pass

    class Connection(core.Connection):
        def new_session(self):
            return Session()

    postgres.BuenaVistaServer(("127.0.0.1", port), Connection()).serve_forever()


def ask(port, count):
    import pg8000.native

    connection = pg8000.native.Connection("museum", host="127.0.0.1", port=port, password="")
    def query():
        assert connection.run("SELECT 1") == [[1]]

    rounds.measure(query, count)


if len(sys.argv) == 2:
    serve(int(sys.argv[1]))
else:
    ask(int(sys.argv[1]), int(sys.argv[2]))
