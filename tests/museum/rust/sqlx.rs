// SPDX-License-Identifier: MIT
// A prepared statement, which is then closed by a message without an answer. Usage: sqlx PORT OPERATIONS
mod rounds;
use sqlx::{Connection, MySqlConnection};

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let address = format!("mysql://root@127.0.0.1:{}/", std::env::args().nth(1).unwrap());
    let mut connection = runtime.block_on(MySqlConnection::connect(&address)).unwrap();
    rounds::measure(|| {
        drop(runtime.block_on(sqlx::query("SELECT ?").bind(1).persistent(false).fetch_one(&mut connection)).unwrap());
    });
}
