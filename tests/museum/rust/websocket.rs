// SPDX-License-Identifier: MIT
// A message and its echo. Usage: websocket [PORT OPERATIONS]
mod rounds;
use websocket::sync::Server;
use websocket::{ClientBuilder, OwnedMessage};

fn main() {
    let port = match std::env::args().nth(1) {
        Some(port) => port,
        None => {
            let server = Server::bind("127.0.0.1:0").unwrap();
            println!("listening on port {}", server.local_addr().unwrap().port());
            for request in server.filter_map(Result::ok) {
                let mut client = request.accept().unwrap();
                while let Ok(message) = client.recv_message() {
                    client.send_message(&message).unwrap();
                }
            }
            return;
        }
    };
    let mut client = ClientBuilder::new(&format!("ws://127.0.0.1:{}", port)).unwrap().connect_insecure().unwrap();
    rounds::measure(|| {
        client.send_message(&OwnedMessage::Text("hello".into())).unwrap();
        client.recv_message().unwrap();
    });
}
