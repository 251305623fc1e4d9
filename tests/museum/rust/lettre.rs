// SPDX-License-Identifier: MIT
// Sends messages over one connection to an SMTP server. Usage: lettre PORT OPERATIONS
mod rounds;
use lettre::{Message, SmtpTransport, Transport};

fn main() {
    let port = std::env::args().nth(1).unwrap().parse().unwrap();
    let mailer = SmtpTransport::builder_dangerous("127.0.0.1").port(port).build();
    let mail = Message::builder()
        .from("a@example.org".parse().unwrap())
        .to("b@example.org".parse().unwrap())
        .subject("x")
        .body("x".repeat(100))
        .unwrap();
    rounds::measure(|| drop(mailer.send(&mail).unwrap()));
}
