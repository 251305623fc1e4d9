// SPDX-License-Identifier: MIT
// Answers a POST with 201 by Jetty. Usage: java JettyQueue

import java.io.IOException;
import java.net.InetSocketAddress;
import javax.servlet.http.HttpServletRequest;
import javax.servlet.http.HttpServletResponse;
import org.eclipse.jetty.server.Request;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import org.eclipse.jetty.server.handler.AbstractHandler;

public final class JettyQueue {
    private JettyQueue() {
    }

    private static final class Store extends AbstractHandler {
        @Override
        public void handle(String target, Request base, HttpServletRequest request,
            HttpServletResponse response) throws IOException {
            request.getInputStream().readAllBytes();
            response.setStatus(HttpServletResponse.SC_CREATED);
            response.getOutputStream().print("stored\n");
            base.setHandled(true);
        }
    }

    public static void main(String[] arguments) throws Exception {
        Server server = new Server(new InetSocketAddress("127.0.0.1", 0));
        server.setHandler(new Store());
        server.start();
        System.out.println("listening on port "
            + ((ServerConnector) server.getConnectors()[0]).getLocalPort());
    }
}
