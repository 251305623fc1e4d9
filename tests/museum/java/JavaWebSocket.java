// SPDX-License-Identifier: MIT
// Two messages, and then the answer to the second. Usage: JavaWebSocket PORT OPERATIONS

import java.io.IOException;
import java.net.URI;
import java.util.concurrent.SynchronousQueue;
import org.java_websocket.client.WebSocketClient;
import org.java_websocket.drafts.Draft_17;
import org.java_websocket.handshake.ServerHandshake;

public final class JavaWebSocket extends WebSocketClient {
    private final SynchronousQueue<String> answers = new SynchronousQueue<>();

    private JavaWebSocket(String port) {
        super(URI.create("ws://127.0.0.1:" + port), new Draft_17());
    }

    @Override
    public void onOpen(ServerHandshake handshake) {
    }

    @Override
    public void onMessage(String message) {
        try {
            answers.put(message);
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    @Override
    public void onClose(int code, String reason, boolean remote) {
    }

    @Override
    public void onError(Exception error) {
        error.printStackTrace();
    }

    public static void main(String[] arguments) throws IOException, ClassNotFoundException, InterruptedException {
        JavaWebSocket client = new JavaWebSocket(arguments[0]);
        client.connectBlocking();
        Rounds.measure(Integer.parseInt(arguments[1]), () -> {
            client.send("head");
            client.send("body");
            try {
                client.answers.take();
            } catch (InterruptedException error) {
                throw new IOException(error);
            }
        });
        client.close();
    }
}
