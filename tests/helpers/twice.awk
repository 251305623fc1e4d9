# SPDX-License-Identifier: MIT
# Refuses a table in which a name, or a key of a name, comes twice: a reader would lose one of them without a word. A name
# begins its line; with -v words=2 it has two words. A key is indented by four spaces, and what is indented more continues
# its value. -v keys=0: what is indented is no key.

BEGIN {
    if (!words)
        words = 1
}

function once(what) {
    if (seen[what]++) {
        print FILENAME ":" FNR ": comes twice: " what >"/dev/stderr"
        status = 1
    }
}

!continued && /^[^ #]/ { once(name = words == 1 ? $1 : $1 " " $2) }
!continued && /^    [^ #]/ && keys != "0" { once(name ", " $1) }
{ continued = /\\$/ }
END { exit status }
