// SPDX-License-Identifier: MIT
// Answers each request with 400 bytes. Usage: oxhttp PORT
use oxhttp::model::{Response, Status};
use oxhttp::Server;

fn main() {
    let port: u16 = std::env::args().nth(1).unwrap().parse().unwrap();
    let server = Server::new(|_| Response::builder(Status::OK).with_body("x".repeat(400)));
    server.bind((std::net::Ipv4Addr::LOCALHOST, port)).spawn().unwrap().join().unwrap();
}
