// SPDX-License-Identifier: MIT
// Answers each request with 1200 bytes. Usage: touche PORT
use touche::{Response, Server, StatusCode};

fn main() -> std::io::Result<()> {
    Server::bind(format!("127.0.0.1:{}", std::env::args().nth(1).unwrap()))
        .serve(|_| Response::builder().status(StatusCode::OK).body("x".repeat(1200)))
}
