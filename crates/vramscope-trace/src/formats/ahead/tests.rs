use super::*;
use crate::formats::window::Window;

/// Returns `length` increasing bytes in reads of odd sizes, and then the result of `then`.
struct Counting<F> {
    at: usize,
    length: usize,
    then: F,
}

impl<F: FnMut() -> io::Result<usize>> Read for Counting<F> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let n = out.len().min(self.length - self.at).min(1 + self.at % 70_001);
        for byte in &mut out[..n] {
            *byte = byte_at(self.at);
            self.at += 1;
        }
        if n > 0 { Ok(n) } else { (self.then)() }
    }
}

fn byte_at(i: usize) -> u8 {
    (i ^ (i >> 8) ^ (i >> 16)) as u8
}

/// Reads ahead while `decode` runs.
fn ahead<T>(stream: impl Read + Send, decode: impl FnOnce(Window<'_>) -> T) -> T {
    let mut stream = stream;
    thread::scope(|scope| decode(Window::new(Ahead::start(scope, &mut stream, &mut || ()).unwrap(), None)))
}

#[test]
fn reading_ahead_returns_the_bytes_of_the_stream_for_any_request_size() {
    for length in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 5 * CHUNK + 17] {
        // Less and more than the space in front of a chunk, and more than a chunk.
        for step in [10, FRONT - 1, FRONT + 1, CHUNK + 7, 3 * CHUNK] {
            let stream = Counting { at: 0, length, then: || Ok(0) };
            ahead(stream, |mut window| {
                let mut at = 0;
                while at < length {
                    assert_eq!(window.offset(), at as u64);
                    window.fill(step).unwrap();
                    let here = window.here();
                    assert!(here.len() >= step.min(length - at), "{length} {step} {at}");
                    // Leave some bytes each time.
                    let used = if here.len() < step { here.len() } else { step - step / 3 };
                    assert!(here[..used].iter().enumerate().all(|(i, &byte)| byte == byte_at(at + i)));
                    window.advance(used);
                    at += used;
                }
                window.fill(1).unwrap();
                assert!(window.here().is_empty());
            });
        }
    }
}

#[test]
fn an_error_comes_behind_the_bytes_before_it() {
    let stream = Counting { at: 0, length: CHUNK + 9, then: || Err(io::Error::other("gone")) };
    ahead(stream, |mut window| {
        window.fill(CHUNK + 9).unwrap();
        assert_eq!(window.here().len(), CHUNK + 9);
        assert_eq!(window.fill(CHUNK + 10).unwrap_err().to_string(), "gone");
    });
}

#[test]
fn an_interrupted_read_is_repeated() {
    let mut interrupted = false;
    let then = move || {
        let again = std::mem::replace(&mut interrupted, true);
        if again { Ok(0) } else { Err(io::ErrorKind::Interrupted.into()) }
    };
    ahead(Counting { at: 0, length: 7, then }, |mut window| {
        window.fill(8).unwrap();
        assert_eq!(window.here().len(), 7);
    });
}

#[test]
fn a_decoder_that_stops_ends_the_thread() {
    // If the thread did not end, neither the scope nor this test would end.
    ahead(io::repeat(7), |mut window| window.fill(1).unwrap());
    let panicked = std::panic::catch_unwind(|| {
        ahead(io::repeat(7), |_| std::panic::panic_any("the decoder"));
    });
    assert!(panicked.is_err());
}

#[test]
fn a_panic_of_a_stream_is_not_its_end() {
    let panicked = std::panic::catch_unwind(|| {
        let then = || std::panic::panic_any("the stream");
        ahead(Counting { at: 0, length: 9, then }, |mut window| window.fill(10).unwrap());
    });
    assert!(panicked.is_err());
}
