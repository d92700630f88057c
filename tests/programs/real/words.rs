// SPDX-License-Identifier: Apache-2.0
//! A Rust program: a thread that counts words and one that waits for it.
use std::collections::HashMap;
use std::sync::mpsc;
use std::time::{Duration, Instant};

struct Counter {
    words: HashMap<String, usize>,
}

impl Counter {
    #[inline(never)]
    fn count_words(&mut self, text: &str) -> usize {
        for word in text.split_whitespace() {
            *self.words.entry(word.to_string()).or_insert(0) += 1;
        }
        self.words.len()
    }
}

fn main() {
    let seconds = std::env::args().nth(1).and_then(|s| s.parse().ok());
    let end = Instant::now() + Duration::from_secs(seconds.unwrap_or(5));
    let (done, finished) = mpsc::channel();
    println!("ready {}", std::process::id());
    let worker = std::thread::Builder::new().name("counter".into());
    let worker = worker.spawn(move || {
        let mut counter = Counter { words: HashMap::new() };
        let text = "the quick brown fox jumps over the lazy dog ".repeat(50);
        while Instant::now() < end {
            counter.count_words(&text);
        }
        done.send(counter.words.len()).unwrap();
    });
    println!("{} words", finished.recv().unwrap());
    worker.unwrap().join().unwrap();
}
