// SPDX-License-Identifier: MIT
// Times operations and prints the line that the harness reads. The first one is not counted.
use std::time::{Duration, Instant};

pub fn measure<F: FnMut()>(mut operation: F) {
    let count: usize = std::env::args().nth(2).unwrap().parse().unwrap();
    let mut times = Vec::new();
    for _ in 0..=count {
        let begun = Instant::now();
        operation();
        times.push(begun.elapsed());
    }
    times.remove(0);
    times.sort();
    let us = |time: Duration| time.as_nanos() as f64 / 1e3;
    let stalls = times.iter().filter(|time| **time > Duration::from_millis(20)).count();
    println!("operations {} median_us {:.1} max_us {:.1} stalls {}", count, us(times[count / 2]), us(times[count - 1]), stalls);
}
