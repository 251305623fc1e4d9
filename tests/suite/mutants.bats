#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Promise: Whoever leaves a step of the shim out is told by a test.
# tests/mutants/run in short: its table is that of the sources as they are, and the unit tests notice each step that is
# left out of the decision tables. `make check-mutants` has the rest.

bats_require_minimum_version 1.5.0
BATS_TEST_TIMEOUT=600 # it builds the library, and unit tests
load ../helpers/common

setup() {
    ns_setup
}

@test "each step that check-mutants leaves out is in the sources, once, and the test that is to notice exists" {
    run tests/mutants/run --check
    echo "$output"
    [[ $status -eq 0 && $output =~ ^[0-9]{3}\ steps$ ]]
}

@test "each step of the decision tables is missed by a unit test" {
    local count
    count=$(cat tests/mutants/*.steps | grep -c "^unit: ")
    run tests/mutants/run unit
    [[ $status -eq 0 && ${lines[-1]} == "$count noticed, 0 not noticed, 0 in error" ]] || {
        echo "$output"
        return 1
    }
}

@test "what changes nothing is not noticed, and what does not build or crashes is an error" {
    cat >"$T/some.steps" <<'END'
== nothing
unit: test_ack
@@ shim/conn/ack.h
-/* Data was read, by a thread whose waits are counted by epoch. */
+/* Data were read, by a thread whose waits are counted by epoch. */

== no_source
unit: test_ack
@@ shim/conn/ack.h
-    state->owed = 1;
+    state->owed = 1
     state->sent = 0;

== crash
unit: test_ack
@@ shim/conn/ack.h
-    state->owed = 1;
+    __builtin_trap();
     state->sent = 0;

== step
unit: test_ack
@@ shim/conn/ack.h
-    state->owed = 1;
     state->sent = 0;
END
    run tests/mutants/run --table "$T/some.steps"
    echo "$output"
    [[ $status -eq 1 && ${lines[-1]} == '1 noticed, 1 not noticed, 2 in error' ]]
    [[ $output == *'nothing '*NOTHING* && $output == *'no_source '*'does not build'* && $output == *'crash '*ERROR* ]]
    sed -i 's/state->sent = 0;/state->sent = 9;/' "$T/some.steps"
    run tests/mutants/run --table "$T/some.steps" step
    echo "$output"
    [[ $status -eq 1 && $output == *'step: what it replaces is 0 times in shim/conn/ack.h'* ]]
}
