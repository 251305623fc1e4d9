// SPDX-License-Identifier: MIT
// Sends objects and reads them back, with Java's streams of objects straight on the socket.
// Usage: java Objects server; java Objects client PORT OPERATIONS

import java.io.EOFException;
import java.io.IOException;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.ArrayList;
import java.util.List;

public final class Objects {
    private final ObjectOutputStream out;
    private final ObjectInputStream in;

    private Objects(Socket socket) throws IOException {
        out = new ObjectOutputStream(socket.getOutputStream());
        out.flush();
        in = new ObjectInputStream(socket.getInputStream());
    }

    private void send(Object object) throws IOException {
        out.writeObject(object);
        out.reset();
        out.flush();
    }

    private static void serve() throws IOException, ClassNotFoundException {
        try (ServerSocket listener = new ServerSocket(0, 5, InetAddress.getLoopbackAddress())) {
            System.out.println("listening on port " + listener.getLocalPort());
            while (true) {
                try (Socket socket = listener.accept()) {
                    Objects peer = new Objects(socket);
                    while (true) {
                        peer.send(peer.in.readObject());
                    }
                } catch (EOFException end) {
                    // The next one.
                }
            }
        }
    }

    private static void ask(int port, int count) throws IOException, ClassNotFoundException {
        List<String> order = new ArrayList<>();
        for (int i = 0; i < 100; i++) {
            order.add("item number " + i);
        }
        try (Socket socket = new Socket(InetAddress.getLoopbackAddress(), port)) {
            Objects peer = new Objects(socket);
            Rounds.measure(count, () -> {
                peer.send(order);
                if (!order.equals(peer.in.readObject())) {
                    throw new IOException("another object");
                }
            });
        }
    }

    public static void main(String[] arguments) throws IOException, ClassNotFoundException {
        if (arguments[0].equals("server")) {
            serve();
        } else {
            ask(Integer.parseInt(arguments[1]), Integer.parseInt(arguments[2]));
        }
    }
}
