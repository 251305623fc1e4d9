// SPDX-License-Identifier: MIT
// A request of two writes, by rustix without libc; the server uses the standard library. Usage: rustix PORT [OPERATIONS]
use rustix::io::{read, write};
use rustix::net::{connect_v4, socket, AddressFamily, Ipv4Addr, SocketAddrV4, SocketType};
use std::io::{Read, Write};
#[path = "rounds.rs"]
mod rounds;

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let port: u16 = words[1].parse().unwrap();
    let mut message = [1; 64];
    if words.len() == 2 {
        for stream in std::net::TcpListener::bind(("127.0.0.1", port)).unwrap().incoming() {
            let mut stream = stream.unwrap();
            while stream.read_exact(&mut message).is_ok() {
                stream.write_all(&message).unwrap();
            }
        }
    }
    let server = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    connect_v4(&server, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)).unwrap();
    rounds::measure(|| {
        write(&server, &message[..8]).unwrap();
        write(&server, &message[8..]).unwrap();
        let mut have = 0;
        while have < message.len() {
            have += read(&server, &mut message[have..]).unwrap();
        }
    });
}
