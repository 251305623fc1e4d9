// SPDX-License-Identifier: MIT
// Sends messages with a DataOutputStream that has no buffer: writeBytes writes each character by itself.
// Usage: java Talk PORT WARMUP COUNT

import java.io.BufferedReader;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.Socket;
import java.util.Arrays;

public final class Talk {
    private Talk() {
    }

    public static void main(String[] arguments) throws IOException {
        if (arguments.length != 3 || !String.join("", arguments).matches("[0-9]+")) {
            System.err.println("usage: java Talk PORT WARMUP COUNT");
            System.exit(2);
        }
        int warmup = Integer.parseInt(arguments[1]);
        int count = Integer.parseInt(arguments[2]);
        double[] times = new double[count];
        try (Socket socket = new Socket("127.0.0.1", Integer.parseInt(arguments[0]))) {
            DataOutputStream out = new DataOutputStream(socket.getOutputStream());
            BufferedReader in = new BufferedReader(new InputStreamReader(socket.getInputStream()));
            for (int number = 0; number < warmup + count; number++) {
                long begun = System.nanoTime();
                out.writeBytes("{\"number\": " + number);
                out.writeBytes(", \"symbol\": \"ACME\"");
                out.writeBytes(", \"price\": " + (1000 + number % 9000));
                out.writeBytes(", \"size\": " + (100 + number % 900));
                out.writeBytes(", \"side\": \"" + (number % 2 == 0 ? "buy" : "sell") + "\"}\n");
                if (!String.valueOf(number).equals(in.readLine())) {
                    throw new IOException("another answer");
                }
                if (number >= warmup) {
                    times[number - warmup] = (System.nanoTime() - begun) / 1e3;
                }
            }
        }
        Arrays.sort(times);
        System.out.printf("messages %d mean_us %.1f median_us %.1f stalls %d%n", count,
            Arrays.stream(times).average().orElse(0), count > 0 ? times[count / 2] : 0,
            Arrays.stream(times).filter(us -> us > 20000).count());
    }
}
