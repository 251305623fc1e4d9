// SPDX-License-Identifier: MIT
// Writes the head and the body of a message in two calls and reads the line that comes back:
// "write-write-read is the killer". Server and client in one class:
//
//     WriteWriteRead [--connections N] server PORT COUNT
//     WriteWriteRead [--warmup N] client HOST PORT ROUNDS
//
// The server echoes COUNT lines on each of N connections (1); 0: until the client closes it, and
// without end. PORT 0 takes a free one, and the first line printed is 'listening on port N'.

import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Locale;

public final class WriteWriteRead {
    private static final byte[] HEAD = "h".getBytes(StandardCharsets.US_ASCII);
    private static final byte[] BODY = "w\n".getBytes(StandardCharsets.US_ASCII);
    private static final byte[] LINE = "hw\n".getBytes(StandardCharsets.US_ASCII);
    private static final long STALL_NS = 20_000_000;

    private WriteWriteRead() {
    }

    /** False at the end of the stream before the first byte of a line. */
    private static boolean readLine(InputStream in) throws IOException {
        byte[] line = in.readNBytes(LINE.length);
        if (line.length > 0 && !Arrays.equals(line, LINE)) {
            throw new IOException("a line arrived with other bytes than were sent");
        }
        return line.length > 0;
    }

    private static void server(int connections, int port, int count) throws IOException {
        try (ServerSocket listener = new ServerSocket(port)) {
            System.out.println("listening on port " + listener.getLocalPort());
            for (int i = 0; connections == 0 || i < connections; i++) {
                int done = 0;
                try (Socket socket = listener.accept()) {
                    while ((count == 0 || done < count) && readLine(socket.getInputStream())) {
                        socket.getOutputStream().write(LINE);
                        done++;
                    }
                }
                System.out.println("rounds " + done);
            }
        }
    }

    private static long round(Socket socket) throws IOException {
        long begun = System.nanoTime();
        socket.getOutputStream().write(HEAD);
        socket.getOutputStream().write(BODY);
        if (!readLine(socket.getInputStream())) {
            throw new EOFException("the server closed the connection");
        }
        return System.nanoTime() - begun;
    }

    private static void client(int warmup, String host, int port, int rounds) throws IOException {
        long[] took = new long[rounds];
        long begun;
        long ended;
        try (Socket socket = new Socket(host, port)) {
            for (int i = 0; i < warmup; i++) {
                round(socket);
            }
            begun = System.nanoTime();
            for (int i = 0; i < rounds; i++) {
                took[i] = round(socket);
            }
            ended = System.nanoTime();
        }
        Arrays.sort(took);
        System.out.printf(Locale.ROOT,
            "rounds %d warmup %d total_ms %.3f median_us %.1f max_us %.1f stalls %d%n", rounds,
            warmup, (ended - begun) / 1e6, (took[(rounds - 1) / 2] + took[rounds / 2]) / 2e3,
            took[rounds - 1] / 1e3, Arrays.stream(took).filter(ns -> ns > STALL_NS).count());
    }

    public static void main(String[] words) throws IOException {
        if (!String.join(" ", words).matches(
            "(--connections [0-9]+ )?server [0-9]+ [0-9]+|(--warmup [0-9]+ )?client [^ ]+ [0-9]+ [0-9]+")) {
            System.err.println("usage: java WriteWriteRead [--connections N] server PORT COUNT"
                + " | [--warmup N] client HOST PORT ROUNDS");
            System.exit(2);
        }
        boolean option = words[0].startsWith("--");
        String[] rest = Arrays.copyOfRange(words, option ? 2 : 0, words.length);
        int[] numbers = Arrays.stream(rest).skip(rest.length - 2).mapToInt(Integer::parseInt).toArray();
        if (rest[0].equals("server")) {
            server(option ? Integer.parseInt(words[1]) : 1, numbers[0], numbers[1]);
        } else {
            client(option ? Integer.parseInt(words[1]) : 0, rest[1], numbers[0], numbers[1]);
        }
    }
}
