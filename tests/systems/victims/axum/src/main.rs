// SPDX-License-Identifier: MIT
// Answers a POST with 201 by axum. Usage: axum-queue
use axum::{body::Bytes, http::StatusCode, routing::post, Router};

async fn store(_message: Bytes) -> (StatusCode, &'static str) {
    (StatusCode::CREATED, "stored\n")
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("listening on port {}", listener.local_addr()?.port());
    axum::serve(listener, Router::new().route("/queue/:number", post(store))).await
}
