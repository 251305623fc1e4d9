// SPDX-License-Identifier: MIT
// Writes the head and the body of a message in two calls and reads the line that comes back:
// "write-write-read is the killer". One write and one read, which is --one-write, is the control.
// Server and client in one class, so that `java WriteWriteRead.java ...` runs either.

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.UnknownHostException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;

public final class WriteWriteRead {
    private static final String HELP = String.join("\n",
        "Usage: WriteWriteRead [OPTION]... server PORT COUNT",
        "       WriteWriteRead [OPTION]... client HOST PORT ROUNDS",
        "The server echoes COUNT lines on each connection; 0: until the client closes it.",
        "PORT 0 takes a free one. The first line printed is 'listening on port N'.",
        "The client writes \"h\", then \"w\" and a newline, and reads the line that comes back.",
        "  --one-write      client: the whole line in one write",
        "  --nodelay        TCP_NODELAY",
        "  --warmup N       client: rounds before those that count (0)",
        "  --connections N  server: connections to serve, one after the other (1); 0: no end",
        "  --help           this text");

    private static final byte[] HEAD = "h".getBytes(StandardCharsets.US_ASCII);
    private static final byte[] BODY = "w\n".getBytes(StandardCharsets.US_ASCII);
    private static final byte[] LINE = "hw\n".getBytes(StandardCharsets.US_ASCII);
    private static final long STALL_NS = 20_000_000;

    private boolean oneWrite;
    private boolean nodelay;
    private int warmup;
    private int connections = 1;

    /** A mistake on the command line. */
    private static final class UsageException extends Exception {
        private static final long serialVersionUID = 1;

        UsageException(String message) {
            super(message);
        }
    }

    private static int number(String text, String what, int least, int most)
            throws UsageException {
        try {
            int value = Integer.parseInt(text);
            if (value >= least && value <= most) {
                return value;
            }
        } catch (NumberFormatException notANumber) {
            // said below
        }
        throw new UsageException(what + " must be a number from " + least + " to " + most
            + ", not '" + text + "'");
    }

    /** Fills line; false at the end of the stream before its first byte. */
    private static boolean readLine(InputStream in, byte[] line) throws IOException {
        int have = 0;
        while (have < line.length) {
            int got = in.read(line, have, line.length - have);
            if (got < 0 && have == 0) {
                return false;
            }
            if (got < 0) {
                throw new IOException("the peer closed the connection within a line");
            }
            have += got;
        }
        if (!Arrays.equals(line, LINE)) {
            throw new IOException("a line arrived with other bytes than were sent");
        }
        return true;
    }

    private void serve(Socket socket, int count) throws IOException {
        byte[] line = new byte[LINE.length];
        int done = 0;
        socket.setTcpNoDelay(nodelay);
        while ((count == 0 || done < count) && readLine(socket.getInputStream(), line)) {
            socket.getOutputStream().write(line);
            done++;
        }
        if (done < count) {
            throw new IOException("the client closed the connection after " + done + " of "
                + count + " lines");
        }
        System.out.println("rounds " + done);
    }

    private void server(int port, int count) throws IOException {
        try (ServerSocket listener = new ServerSocket(port)) {
            System.out.println("listening on port " + listener.getLocalPort());
            for (int i = 0; connections == 0 || i < connections; i++) {
                try (Socket socket = listener.accept()) {
                    serve(socket, count);
                }
            }
        }
    }

    private long round(InputStream in, OutputStream out, byte[] line) throws IOException {
        long begun = System.nanoTime();
        if (oneWrite) {
            out.write(LINE);
        } else {
            out.write(HEAD);
            out.write(BODY);
        }
        if (!readLine(in, line)) {
            throw new IOException("the server closed the connection");
        }
        return System.nanoTime() - begun;
    }

    /** Connects to the first of the host's addresses that answers. */
    private static Socket connect(String host, int port) throws IOException {
        IOException failure = null;
        for (InetAddress address : addresses(host)) {
            try {
                return new Socket(address, port);
            } catch (IOException refused) {
                failure = refused;
            }
        }
        throw new IOException("cannot connect to " + host + " port " + port + ": "
            + failure.getMessage());
    }

    private static InetAddress[] addresses(String host) throws IOException {
        try {
            return InetAddress.getAllByName(host);
        } catch (UnknownHostException unknown) {
            throw new IOException(host + ": unknown host", unknown);
        }
    }

    private void client(String host, int port, int rounds) throws IOException {
        long[] took = new long[rounds];
        byte[] line = new byte[LINE.length];
        long begun;
        long ended;
        try (Socket socket = connect(host, port)) {
            InputStream in = socket.getInputStream();
            OutputStream out = socket.getOutputStream();
            socket.setTcpNoDelay(nodelay);
            for (int i = 0; i < warmup; i++) {
                round(in, out, line);
            }
            begun = System.nanoTime();
            for (int i = 0; i < rounds; i++) {
                took[i] = round(in, out, line);
            }
            ended = System.nanoTime();
        }
        Arrays.sort(took);
        System.out.printf(Locale.ROOT,
            "rounds %d warmup %d total_ms %.3f median_us %.1f max_us %.1f stalls %d%n", rounds,
            warmup, (ended - begun) / 1e6, (took[(rounds - 1) / 2] + took[rounds / 2]) / 2e3,
            took[rounds - 1] / 1e3, Arrays.stream(took).filter(ns -> ns > STALL_NS).count());
    }

    private static String value(String[] arguments, int at) throws UsageException {
        if (at >= arguments.length) {
            throw new UsageException(arguments[at - 1] + " needs a number");
        }
        return arguments[at];
    }

    /** Takes the options; what is left are the words. */
    private List<String> options(String[] arguments) throws UsageException {
        List<String> words = new ArrayList<>();
        for (int i = 0; i < arguments.length; i++) {
            switch (arguments[i]) {
                case "--one-write" -> oneWrite = true;
                case "--nodelay" -> nodelay = true;
                case "--warmup" -> warmup =
                    number(value(arguments, ++i), "--warmup", 0, Integer.MAX_VALUE);
                case "--connections" -> connections =
                    number(value(arguments, ++i), "--connections", 0, Integer.MAX_VALUE);
                default -> {
                    if (arguments[i].startsWith("-")) {
                        throw new UsageException("unrecognized option '" + arguments[i] + "'");
                    }
                    words.add(arguments[i]);
                }
            }
        }
        return words;
    }

    private void run(List<String> words) throws UsageException, IOException {
        if (words.size() == 3 && words.get(0).equals("server")) {
            server(number(words.get(1), "PORT", 0, 65535),
                number(words.get(2), "COUNT", 0, Integer.MAX_VALUE));
        } else if (words.size() == 4 && words.get(0).equals("client")) {
            client(words.get(1), number(words.get(2), "PORT", 1, 65535),
                number(words.get(3), "ROUNDS", 1, 100_000_000));
        } else {
            throw new UsageException(
                "needs server PORT COUNT, or client HOST PORT ROUNDS, see --help");
        }
    }

    public static void main(String[] arguments) {
        if (Arrays.asList(arguments).contains("--help")) {
            System.out.println(HELP);
            return;
        }
        WriteWriteRead program = new WriteWriteRead();
        try {
            program.run(program.options(arguments));
        } catch (UsageException mistake) {
            System.err.println("WriteWriteRead: " + mistake.getMessage());
            System.exit(2);
        } catch (IOException failure) {
            System.err.println("WriteWriteRead: " + failure.getMessage());
            System.exit(1);
        }
    }
}
