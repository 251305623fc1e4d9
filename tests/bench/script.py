# SPDX-License-Identifier: MIT
"""The frame of a measurement that prints a table of its own beside that of `run`, and leaves what it
has measured in a JSON file, from which the pictures are drawn."""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from side_by_side import ROOT, Bench, CannotRun, isolate


def arguments(name, description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="one short run of each")
    parser.add_argument("--json", metavar="FILE", type=pathlib.Path,
                        default=ROOT / f"build/{name}.json",
                        help=f"where the results go (build/{name}.json)")
    return parser


def run(name, options, parts):
    """parts(bench, results) gives functions, one for each part of the table; when one cannot be run,
    the others are. Exit status."""
    options.json = options.json.absolute()
    options.only = None
    isolate()
    results, status = [], 0
    with tempfile.TemporaryDirectory(prefix="nagleshim-bench-") as work:
        os.chmod(work, 0o755)
        bench = Bench(options, pathlib.Path(work))
        for part in parts(bench, results):
            try:
                part()
            except (CannotRun, OSError, subprocess.SubprocessError) as error:
                print(f"{name}: {error}", file=sys.stderr)
                status = 1
            finally:
                bench.end_servers()
            sys.stdout.flush()
    options.json.parent.mkdir(exist_ok=True)
    options.json.write_text(json.dumps({"kernel": os.uname().release, "quick": options.quick,
                                        "rows": results}, indent=1) + "\n")
    return status
