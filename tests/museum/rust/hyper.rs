// SPDX-License-Identifier: MIT
// Answers each request with 8 KiB. Usage: hyper
use hyper::server::{Request, Response, Server};

fn main() {
    let server = Server::http("127.0.0.1:0").unwrap();
    let listening = server.handle(|_: Request, answer: Response| answer.send(&[b'x'; 8192]).unwrap()).unwrap();
    println!("listening on port {}", listening.socket.port());
}
