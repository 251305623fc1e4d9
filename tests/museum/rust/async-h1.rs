// SPDX-License-Identifier: MIT
// Answers each request with 400 bytes. Usage: async-h1
use async_std::net::TcpListener;
use async_std::task;
use http_types::{Response, StatusCode};

fn main() -> http_types::Result<()> {
    task::block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        println!("listening on port {}", listener.local_addr()?.port());
        loop {
            let (stream, _) = listener.accept().await?;
            task::spawn(async_h1::accept(stream, |_| async {
                let mut answer = Response::new(StatusCode::Ok);
                answer.set_body("x".repeat(400));
                Ok(answer)
            }));
        }
    })
}
