// SPDX-License-Identifier: MIT
// POSTs over one kept connection with HttpURLConnection. Usage: java HttpPost PORT OPERATIONS

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.HttpURLConnection;
import java.net.URL;

public final class HttpPost {
    private HttpPost() {
    }

    public static void main(String[] arguments) throws IOException, ClassNotFoundException {
        URL url = new URL("http://127.0.0.1:" + arguments[0] + "/queue");
        byte[] message = new byte[400];
        Rounds.measure(Integer.parseInt(arguments[1]), () -> {
            HttpURLConnection connection = (HttpURLConnection) url.openConnection();
            connection.setDoOutput(true);
            connection.setFixedLengthStreamingMode(message.length);
            try (OutputStream body = connection.getOutputStream()) {
                body.write(message);
            }
            try (InputStream answer = connection.getInputStream()) {
                if (connection.getResponseCode() / 100 != 2 || answer.readAllBytes().length == 0) {
                    throw new IOException("another answer");
                }
            }
        });
    }
}
