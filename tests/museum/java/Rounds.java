// SPDX-License-Identifier: MIT
// Times operations and prints the line that the tests read. The first one opens the connection and is not
// counted.

import java.io.IOException;
import java.util.Arrays;
import java.util.Locale;

final class Rounds {
    private static final long STALL_NS = 20_000_000;

    private Rounds() {
    }

    interface Operation {
        void run() throws IOException, ClassNotFoundException;
    }

    static void measure(int count, Operation operation) throws IOException, ClassNotFoundException {
        long[] times = new long[count];
        operation.run();
        for (int i = 0; i < count; i++) {
            long begun = System.nanoTime();
            operation.run();
            times[i] = System.nanoTime() - begun;
        }
        Arrays.sort(times);
        System.out.printf(Locale.ROOT, "operations %d median_us %.1f max_us %.1f stalls %d%n", count,
            times[count / 2] / 1e3, times[count - 1] / 1e3,
            Arrays.stream(times).filter(time -> time > STALL_NS).count());
    }
}
