# SPDX-License-Identifier: MIT
"""The ways of sending that measurements compare, as tests/modes lists them."""

import functools
import json
import subprocess

from side_by_side import ROOT, CannotRun


@functools.cache
def modes():
    """Name -> policy, of those that the library knows."""
    listed = subprocess.run([ROOT / "tests/modes"], stdout=subprocess.PIPE, text=True)
    if listed.returncode != 0:
        raise CannotRun("tests/modes failed")
    return dict(line.split("|", 1) for line in listed.stdout.splitlines())


def with_sockopt(policy, options):
    """The policy, and for its rules the socket options besides."""
    changed = json.loads(policy)
    for rule in changed["rules"]:
        rule["sockopt"] = options
    return json.dumps(changed)
