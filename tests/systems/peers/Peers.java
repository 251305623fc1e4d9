// SPDX-License-Identifier: MIT
// What the JDK's own classes do with connections, each piece checked byte by byte. Prints "pass NAME" or
// "fail NAME" for each. Usage: java Peers.java
import com.sun.net.httpserver.HttpServer;
import java.io.*;
import java.net.*;
import java.net.http.*;
import java.nio.ByteBuffer;
import java.nio.channels.*;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.*;

public class Peers {
    interface Test { void run() throws Exception; }
    interface Serve { void run(Socket socket) throws Exception; }

    static final int[] SIZES = {0, 1, 100, 1448, 1449, 20000, 65537, 1000000};
    static final InetAddress HERE = InetAddress.getLoopbackAddress();
    static final ExecutorService POOL = Executors.newCachedThreadPool(task -> {
        Thread thread = new Thread(task);
        thread.setDaemon(true);
        return thread;
    });

    static byte[] bytes(int size) {
        byte[] data = new byte[size];
        for (int i = 0; i < size; i++) data[i] = (byte) (i * 7 + (i >> 8));
        return data;
    }

    static void expect(boolean condition) {
        if (!condition) throw new AssertionError();
    }

    /** A client's socket, connected to a server that serves one connection. */
    static Socket served(Serve serve) throws Exception {
        ServerSocket listener = new ServerSocket(0, 5, HERE);
        POOL.submit(() -> {
            try (listener; Socket socket = listener.accept()) {
                serve.run(socket);
            }
            return null;
        });
        return new Socket(HERE, listener.getLocalPort());
    }

    static void echo(Socket socket) throws IOException {
        socket.getInputStream().transferTo(socket.getOutputStream());
    }

    static void streams(boolean nodelay) throws Exception {
        try (Socket socket = served(Peers::echo)) {
            socket.setTcpNoDelay(nodelay);
            expect(socket.getTcpNoDelay() == nodelay);
            byte[] data = bytes(30);
            for (int round = 0; round < 20; round++) {
                for (int i = 0; i < 30; i += 2) socket.getOutputStream().write(data, i, 2);
                expect(Arrays.equals(data, socket.getInputStream().readNBytes(30)));
            }
        }
    }

    static void objects() throws Exception {
        try (Socket socket = served(peer -> {
            ObjectOutputStream out = new ObjectOutputStream(peer.getOutputStream());
            ObjectInputStream in = new ObjectInputStream(peer.getInputStream());
            for (int i = 0; i < 20; i++) out.writeObject(in.readObject());
        })) {
            ObjectOutputStream out = new ObjectOutputStream(socket.getOutputStream());
            ObjectInputStream in = new ObjectInputStream(socket.getInputStream());
            for (int i = 0; i < 20; i++) {
                out.writeObject(List.of("object", i));
                expect(in.readObject().equals(List.of("object", i)));
            }
        }
    }

    static void timeout() throws Exception {
        try (Socket socket = served(peer -> expect(peer.getInputStream().read() == 'x'))) {
            socket.setSoTimeout(100);
            try {
                socket.getInputStream().read();
                expect(false);
            } catch (SocketTimeoutException expected) {
                socket.getOutputStream().write('x');
            }
            socket.setSoTimeout(0);
            expect(socket.getInputStream().read() == -1);
        }
    }

    static void reset() throws Exception {
        try (Socket socket = served(peer -> {
            peer.getInputStream().read();
            peer.setSoLinger(true, 0);
        })) {
            socket.getOutputStream().write('x');
            try {
                socket.getInputStream().read();
                expect(false);
            } catch (SocketException expected) {
                expect(expected.getMessage().contains("reset"));
            }
        }
    }

    static void halfClosed() throws Exception {
        try (Socket socket = served(peer -> {
            byte[] question = peer.getInputStream().readAllBytes();
            peer.getOutputStream().write("answer to ".getBytes());
            peer.getOutputStream().write(question);
        })) {
            socket.getOutputStream().write("th".getBytes());
            socket.getOutputStream().write("is".getBytes());
            socket.shutdownOutput();
            expect(new String(socket.getInputStream().readAllBytes()).equals("answer to this"));
        }
    }

    static void closedByAnother() throws Exception {
        try (Socket socket = served(peer -> peer.getInputStream().read())) {
            Future<Boolean> waiting = POOL.submit(() -> {
                try {
                    socket.getInputStream().read();
                    return false;
                } catch (SocketException expected) {
                    return true;
                }
            });
            Thread.sleep(100);
            socket.close();
            expect(waiting.get(10, TimeUnit.SECONDS));
        }
    }

    /** A selector's echo, its channels not blocking; gathering writes and scattering reads. */
    static void selector() throws Exception {
        Selector selector = Selector.open();
        ServerSocketChannel listener = ServerSocketChannel.open().bind(new InetSocketAddress(HERE, 0));
        listener.configureBlocking(false);
        listener.register(selector, SelectionKey.OP_ACCEPT);
        POOL.submit(() -> {
            ByteBuffer buffer = ByteBuffer.allocateDirect(3000);
            for (;;) {
                selector.select();
                for (Iterator<SelectionKey> keys = selector.selectedKeys().iterator(); keys.hasNext(); ) {
                    SelectionKey key = keys.next();
                    keys.remove();
                    if (key.isAcceptable()) {
                        SocketChannel channel = listener.accept();
                        channel.configureBlocking(false);
                        channel.register(selector, SelectionKey.OP_READ);
                        continue;
                    }
                    SocketChannel channel = (SocketChannel) key.channel();
                    if (channel.read(buffer.clear()) < 0) channel.close();
                    for (buffer.flip(); buffer.hasRemaining(); ) channel.write(buffer);
                }
            }
        });
        try (SocketChannel channel = SocketChannel.open(listener.getLocalAddress())) {
            for (int i = 0; i < 50; i++) {
                ByteBuffer[] out = {ByteBuffer.wrap(bytes(10)), ByteBuffer.wrap(bytes(1 + i * 20))};
                ByteBuffer[] in = {ByteBuffer.allocate(10), ByteBuffer.allocate(1 + i * 20)};
                while (out[1].hasRemaining()) channel.write(out);
                while (in[1].hasRemaining()) expect(channel.read(in) > 0);
                expect(Arrays.equals(in[0].array(), bytes(10)));
                expect(Arrays.equals(in[1].array(), bytes(1 + i * 20)));
            }
        }
    }

    static void transfer() throws Exception {
        Path file = Files.createTempFile("peers", "");
        Files.write(file, bytes(3000000));
        try (SocketChannel channel = SocketChannel.open(new InetSocketAddress(HERE, counting(3000004)))) {
            channel.write(ByteBuffer.wrap("head".getBytes()));
            try (FileChannel from = FileChannel.open(file)) {
                for (long sent = 0; sent < from.size(); ) sent += from.transferTo(sent, 100000, channel);
            }
            ByteBuffer answer = ByteBuffer.allocate(1);
            expect(channel.read(answer) == 1 && answer.get(0) == '+');
        }
        Files.delete(file);
    }

    /** The port of a server that reads that many bytes, and answers + if they are those of transfer(). */
    static int counting(int size) throws IOException {
        ServerSocket listener = new ServerSocket(0, 5, HERE);
        POOL.submit(() -> {
            try (listener; Socket socket = listener.accept()) {
                byte[] data = socket.getInputStream().readNBytes(size);
                boolean right = Arrays.equals(Arrays.copyOfRange(data, 4, size), bytes(size - 4));
                socket.getOutputStream().write(right ? '+' : '-');
            }
            return null;
        });
        return listener.getLocalPort();
    }

    static void asynchronous() throws Exception {
        try (AsynchronousServerSocketChannel listener =
                 AsynchronousServerSocketChannel.open().bind(new InetSocketAddress(HERE, 0));
             AsynchronousSocketChannel client = AsynchronousSocketChannel.open()) {
            Future<AsynchronousSocketChannel> accepted = listener.accept();
            client.connect(listener.getLocalAddress()).get();
            try (AsynchronousSocketChannel server = accepted.get()) {
                for (int i = 0; i < 50; i++) {
                    ByteBuffer in = ByteBuffer.allocate(20);
                    expect(client.write(ByteBuffer.wrap(bytes(10))).get() == 10);
                    expect(client.write(ByteBuffer.wrap(bytes(10))).get() == 10);
                    while (in.hasRemaining()) expect(server.read(in).get() > 0);
                    expect(server.write(in.flip()).get() == 20);
                    for (in.clear(); in.hasRemaining(); ) expect(client.read(in).get() > 0);
                    expect(Arrays.equals(in.array(), 10, 20, bytes(10), 0, 10));
                }
            }
        }
    }

    static void http(HttpClient.Version version) throws Exception {
        HttpServer server = HttpServer.create(new InetSocketAddress(HERE, 0), 0);
        server.createContext("/", exchange -> {
            byte[] body = exchange.getRequestBody().readAllBytes();
            exchange.sendResponseHeaders(200, body.length == 0 ? -1 : body.length);
            exchange.getResponseBody().write(body);
            exchange.close();
        });
        server.setExecutor(POOL);
        server.start();
        HttpClient client = HttpClient.newBuilder().version(version).build();
        URI uri = URI.create("http://127.0.0.1:" + server.getAddress().getPort() + "/");
        for (int size : SIZES) {
            HttpRequest post = HttpRequest.newBuilder(uri)
                .POST(HttpRequest.BodyPublishers.ofByteArray(bytes(size))).build();
            expect(Arrays.equals(bytes(size),
                client.send(post, HttpResponse.BodyHandlers.ofByteArray()).body()));
        }
        server.stop(0);
    }

    static void urlConnection() throws Exception {
        HttpServer server = HttpServer.create(new InetSocketAddress(HERE, 0), 0);
        server.createContext("/", exchange -> {
            exchange.sendResponseHeaders(200, 0);
            for (byte one : bytes(3000)) exchange.getResponseBody().write(one);
            exchange.close();
        });
        server.start();
        for (int i = 0; i < 10; i++) {
            URL url = new URL("http://127.0.0.1:" + server.getAddress().getPort() + "/");
            try (InputStream in = url.openStream()) {
                expect(Arrays.equals(bytes(3000), in.readAllBytes()));
            }
        }
        server.stop(0);
    }

    public static void main(String[] arguments) {
        Map<String, Test> tests = new LinkedHashMap<>();
        tests.put("streams, without TCP_NODELAY", () -> streams(false));
        tests.put("streams, with TCP_NODELAY", () -> streams(true));
        tests.put("objects", Peers::objects);
        tests.put("a read that times out", Peers::timeout);
        tests.put("a reset is told", Peers::reset);
        tests.put("half-closed", Peers::halfClosed);
        tests.put("a read ends when another thread closes", Peers::closedByAnother);
        tests.put("a selector and its channels", Peers::selector);
        tests.put("a file transferred behind a head", Peers::transfer);
        tests.put("asynchronous channels", Peers::asynchronous);
        tests.put("HttpClient", () -> http(HttpClient.Version.HTTP_1_1));
        tests.put("HttpClient that would rather have HTTP/2", () -> http(HttpClient.Version.HTTP_2));
        tests.put("HttpURLConnection and bodies byte by byte", Peers::urlConnection);
        tests.forEach((name, test) -> {
            try {
                POOL.submit(() -> { test.run(); return null; }).get(60, TimeUnit.SECONDS);
                System.out.println("pass " + name);
            } catch (Exception error) {
                System.out.println("fail " + name);
                error.printStackTrace();
            }
        });
        System.exit(0);
    }
}
