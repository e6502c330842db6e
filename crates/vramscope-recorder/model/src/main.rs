//! The ring of recorded processes in the model checker loom, which runs every order of a few threads, with every value that an atomic
//! operation may read in the memory model of Rust.
//!
//! ```sh
//! cargo run --manifest-path crates/vramscope-recorder/model/Cargo.toml
//! ```

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use loom::sync::atomic as atomics;
use loom::thread;

#[allow(dead_code, reason = "the model uses a part")]
#[path = "../../src/ring.rs"]
mod ring;

use atomics::{AtomicU64, Ordering};
use ring::{AT_ENDED, AT_TAIL, HEADER, Ring};

/// A ring with this many words for records. It is leaked: the threads of a model have no common owner.
fn ring(words: usize) -> Ring<'static> {
    let words: Vec<AtomicU64> = (0..HEADER + words).map(|_| AtomicU64::new(0)).collect();
    Ring::of_any_size(words.leak())
}

/// Writes numbers as records of one word and its complement, waiting for room.
fn write(ring: Ring<'static>, kind: u8, numbers: std::ops::Range<u64>) {
    for number in numbers {
        while !ring.try_write(kind, &[number, !number]) {
            thread::yield_now();
        }
    }
}

/// Reads the records of `writers` writers, each of which writes `count` numbers from 0, and checks them.
fn read(ring: Ring<'static>, writers: usize, count: u64) {
    let (mut next, mut body) = (vec![0; writers], Vec::new());
    while next.iter().any(|&next| next < count) {
        match ring.read(ring.head(), &mut body, false) {
            Some(kind) => {
                let next = &mut next[usize::from(kind)];
                assert_eq!(body, [*next, !*next]);
                *next += 1;
            }
            None => thread::yield_now(),
        }
    }
    assert_eq!(ring.read(ring.head(), &mut body, false), None);
}

/// Runs a model under all orders with at most this many preemptions. A fault panics.
fn check(name: &str, preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let orders = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&orders);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(move || {
        counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        model();
    });
    println!("{name}: {} orders", orders.load(std::sync::atomic::Ordering::Relaxed));
}

fn main() {
    check("two writers and a reader", 2, two_writers_and_a_reader);
    check("a full ring", 3, a_full_ring);
    check("the mark of the end comes after all records", 3, the_mark_of_the_end_comes_after_all_records);
}

/// Both writers take a place at once, and the reader meets records that are not complete.
fn two_writers_and_a_reader() {
    let ring = ring(8);
    let writers = [0, 1].map(|kind| thread::spawn(move || write(ring, kind, 0..1)));
    read(ring, 2, 1);
    writers.into_iter().for_each(|writer| writer.join().unwrap());
}

/// A writer that waits for room while the reader frees it. Records wrap around.
fn a_full_ring() {
    let ring = ring(4);
    let writer = thread::spawn(move || write(ring, 0, 0..2));
    read(ring, 1, 2);
    writer.join().unwrap();
}

/// The recording ends after the last record: a reader that sees the mark sees all records.
fn the_mark_of_the_end_comes_after_all_records() {
    let ring = ring(16);
    let writer = thread::spawn(move || {
        write(ring, 0, 0..2);
        ring.header(AT_ENDED).store(1, Ordering::Release);
    });
    let (mut records, mut body) = (0, Vec::new());
    loop {
        let has_ended = ring.header(AT_ENDED).load(Ordering::Acquire) != 0;
        while ring.read(ring.head(), &mut body, has_ended).is_some() {
            records += 1;
        }
        if has_ended {
            break;
        }
        thread::yield_now();
    }
    writer.join().unwrap();
    assert_eq!((records, ring.header(AT_TAIL).load(Ordering::Relaxed)), (2, 6));
}
