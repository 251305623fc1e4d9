// SPDX-License-Identifier: MIT
// One page from the JDK's own HTTP server, which writes the head and the body of an answer separately.
// Usage: java HttpPage

import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.Arrays;

public final class HttpPage {
    private HttpPage() {
    }

    public static void main(String[] arguments) throws IOException {
        byte[] page = new byte[400];
        HttpServer server =
            HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        Arrays.fill(page, (byte) 'x');
        server.createContext("/", exchange -> {
            exchange.getRequestBody().readAllBytes();
            exchange.sendResponseHeaders(200, page.length);
            try (OutputStream body = exchange.getResponseBody()) {
                body.write(page);
            }
        });
        server.start();
        System.out.println("listening on port " + server.getAddress().getPort());
    }
}
