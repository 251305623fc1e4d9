// SPDX-License-Identifier: MIT
// A prepared statement, which is then closed by a message without an answer. Usage: mysql PORT OPERATIONS
mod rounds;

fn main() {
    let mut options = mysql::OptsBuilder::new();
    let port = std::env::args().nth(1).unwrap().parse().unwrap();
    options.ip_or_hostname(Some("127.0.0.1")).tcp_port(port).user(Some("root")).prefer_socket(false).stmt_cache_size(0);
    let mut connection = mysql::Conn::new(options).unwrap();
    rounds::measure(|| drop(connection.prep_exec("SELECT ?", (1,)).unwrap()));
}
