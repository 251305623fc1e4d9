# SPDX-License-Identifier: MIT
# Prints the bats report of a job; its tests are numbered from "total" on. With summary=1, reads the reports of all jobs, and
# prints the seconds and tests of each file, the failed tests, the lines of the file "retried", each for a test that was tried
# again, and the line with the counts. "job FILE SECONDS" precedes each report.

function end_job() {
    # A file whose setup failed, or that had to be killed, does not report its tests.
    missing = planned - reported
    if (missing > 0) {
        if (!summary)
            print "# " name ": " missing " tests did not report" (running == "" ? "" : "; it was ended in: " running)
        for (; missing > 0; missing--)
            failures[++failed] = name ": a test that did not report"
    }
    planned = reported = 0
    running = ""
}

/^job / {
    end_job()
    name = $2
    sub(/.*\//, "", name)
    if (!(name in took))
        names[++files] = name
    took[name] += $3
    next
}
/^1\.\.[0-9]+$/ { planned = substr($0, 4); next }
/^suite / { next }
/^begin [0-9]+ / { running = $0; sub(/^begin [0-9]+ /, "", running); next }
/^(not )?ok [0-9]+ / {
    running = ""
    reported++
    count[name]++
    sub(/ok [0-9]+/, "ok " ++total)
    if (match($0, / in [0-9]+ms/))
        $0 = substr($0, 1, RSTART) "# in " substr($0, RSTART + 4, RLENGTH - 6) " ms" substr($0, RSTART + RLENGTH)
    if (/^not/)
        failures[++failed] = name ": " substr($0, 8)
    else if (/ # skip/)
        skipped++
    else
        passed++
}
!summary { print }
END {
    end_job()
    if (!summary)
        exit
    printf "\n%10s %5s\n", "time", "tests"
    for (i = 1; i <= files; i++)
        printf "%8.1f s %5d  %s\n", took[names[i]], count[names[i]], names[i]
    for (i = 1; i <= failed; i++)
        printf "%s%s\n", i == 1 ? "\nfailed:\n" : "", failures[i]
    while ((getline line <retried) > 0) {
        split(line, part, ": ")
        rows += !again[part[1], part[2]]++
        evidence = evidence "\n" line
    }
    if (rows)
        printf "\ntried again, as the machine was at fault: %d of %d tests:%s\n", rows, passed + failed, evidence
    printf "\n%d passed, %d failed, %d skipped\n", passed, failed, skipped
    exit failed > 0
}
