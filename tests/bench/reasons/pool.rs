// SPDX-License-Identifier: Apache-2.0
// Workers of a pool: a channel of jobs, a mutex around a table, a condition
// variable at the end of each job. pool SECONDS
use std::collections::HashMap;
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const WORKERS: usize = 6;

fn main() {
    let seconds: u64 = std::env::args().nth(1).unwrap().parse().unwrap();
    let end = Instant::now() + Duration::from_secs(seconds);
    let (sender, receiver) = channel::<u64>();
    let receiver = Arc::new(Mutex::new(receiver));
    let table = Arc::new(Mutex::new(HashMap::<u64, u64>::new()));
    let done = Arc::new((Mutex::new(0u64), Condvar::new()));
    for i in 0..WORKERS {
        let (receiver, table, done) = (receiver.clone(), table.clone(), done.clone());
        thread::Builder::new()
            .name(format!("worker-{i}"))
            .spawn(move || loop {
                let job = match receiver.lock().unwrap().recv() {
                    Ok(job) => job,
                    Err(_) => return,
                };
                {
                    let mut table = table.lock().unwrap();
                    *table.entry(job % 100).or_insert(0) += job;
                    if job % 7 == 0 {
                        thread::sleep(Duration::from_millis(3));
                    }
                }
                *done.0.lock().unwrap() += 1;
                done.1.notify_all();
            })
            .unwrap();
    }
    let waiter = {
        let done = done.clone();
        thread::Builder::new()
            .name("collector".to_string())
            .spawn(move || {
                let mut seen = 0;
                loop {
                    let mut count = done.0.lock().unwrap();
                    while *count == seen {
                        count = done.1.wait(count).unwrap();
                    }
                    seen = *count;
                    if seen == u64::MAX {
                        return;
                    }
                }
            })
            .unwrap()
    };
    println!("ready");
    let mut job = 0;
    while Instant::now() < end {
        job += 1;
        sender.send(job).unwrap();
        thread::sleep(Duration::from_micros(1500));
    }
    drop(sender);
    *done.0.lock().unwrap() = u64::MAX;
    done.1.notify_all();
    waiter.join().unwrap();
}
