// SPDX-License-Identifier: MIT
// A client of the soak: see client.py.
import java.io.IOException;
import java.net.HttpURLConnection;
import java.net.URL;
import java.util.Scanner;

class Client {
    static boolean request(int i) {
        boolean post = i % 2 == 1;
        try {
            var call = (HttpURLConnection) new URL("http://127.0.0.1:8080" + (post ? "/order" : "/item/" + i)).openConnection();
            call.setReadTimeout(20000);
            if (post) {
                call.setDoOutput(true);
                call.getOutputStream().write("x".repeat(3000).getBytes());
            }
            String body = new String(call.getInputStream().readAllBytes());
            return body.equals(post ? "3000" : i + ":" + "x".repeat(i * 61 % 8000));
        } catch (IOException e) {
            return false;
        }
    }

    public static void main(String[] args) throws InterruptedException {
        var in = new Scanner(System.in);
        while (in.hasNextInt()) {
            int rate = in.nextInt(), seconds = in.nextInt(), errors = 0, slow = 0;
            long start = System.nanoTime();
            for (int i = 0; i < rate * seconds; i++) {
                Thread.sleep(Math.max(0, (start + i * 1_000_000_000L / rate - System.nanoTime()) / 1_000_000));
                long begin = System.nanoTime();
                errors += request(i) ? 0 : 1;
                slow += System.nanoTime() - begin > 30_000_000 ? 1 : 0;
            }
            System.out.println(rate * seconds + " " + errors + " " + slow);
        }
    }
}
