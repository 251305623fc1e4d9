// SPDX-License-Identifier: MIT
// Sets 10 kB. Usage: memcached-rs PORT OPERATIONS
mod rounds;
use memcached::client::Client;
use memcached::proto::{Operation, ProtoType};

fn main() {
    let port = std::env::args().nth(1).unwrap();
    let mut client = Client::connect(&[(&*format!("tcp://127.0.0.1:{}", port), 1)], ProtoType::Binary).unwrap();
    let value = vec![b'x'; 10000];
    rounds::measure(|| client.set(b"key", &value, 0, 0).unwrap());
}
