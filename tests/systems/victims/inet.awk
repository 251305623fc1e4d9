# SPDX-License-Identifier: MIT
# gawk's /inet: a line in two writes, and a line back. Usage: gawk -v port=PORT -v count=OPERATIONS -f inet.awk
@load "time"

BEGIN {
    service = "/inet/tcp/0/127.0.0.1/" port
    for (i = 0; i <= count; i++) {
        begun = gettimeofday()
        printf "message " |& service
        fflush(service)
        printf "%06d\n", i |& service
        fflush(service)
        if ((service |& getline line) <= 0)
            exit 1
        # The first one is not counted.
        if (i > 0)
            times[i] = (gettimeofday() - begun) * 1e6
    }
    n = asort(times)
    for (i = 1; i <= n; i++)
        stalls += times[i] > 20000
    printf "operations %d median_us %.1f stalls %d\n", n, times[int(n / 2)], stalls
}
