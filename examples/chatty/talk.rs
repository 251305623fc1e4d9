// SPDX-License-Identifier: MIT
// Sends messages with write! on a TcpStream: each piece of the format is a write of its own.
// Usage: talk PORT WARMUP COUNT
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Instant;

fn main() -> std::io::Result<()> {
    let arguments: Vec<u64> = std::env::args()
        .skip(1)
        .map(|word| word.parse().expect("a number"))
        .collect();
    let (port, warmup, count) = (arguments[0] as u16, arguments[1], arguments[2]);
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    let mut answers = BufReader::new(stream.try_clone()?);
    let mut times = Vec::new();

    for number in 0..warmup + count {
        let side = if number % 2 == 0 { "buy" } else { "sell" };
        let symbol = String::from("ACME");
        let mut answer = String::new();
        let begun = Instant::now();
        writeln!(
            stream,
            "{{\"number\": {}, \"symbol\": \"{}\", \"price\": {}, \"size\": {}, \"side\": \"{}\"}}",
            number,
            symbol,
            1000 + number % 9000,
            100 + number % 900,
            side
        )?;
        answers.read_line(&mut answer)?;
        assert_eq!(answer, format!("{}\n", number));
        if number >= warmup {
            times.push(begun.elapsed().as_secs_f64() * 1e6);
        }
    }
    times.sort_by(|a, b| a.partial_cmp(b).unwrap());
    println!(
        "messages {} mean_us {:.1} median_us {:.1} stalls {}",
        count,
        times.iter().sum::<f64>() / times.len().max(1) as f64,
        times.get(times.len() / 2).unwrap_or(&0.0),
        times.iter().filter(|us| **us > 20000.0).count()
    );
    Ok(())
}
