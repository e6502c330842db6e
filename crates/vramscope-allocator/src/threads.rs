//! Numbers for threads, and for the default stream that each has of its own.

use std::num::NonZeroU64;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use vramscope_basics::lock;

/// `cudaStreamPerThread`: a handle that is another stream on every thread.
pub(crate) const STREAM_PER_THREAD: u64 = 2;

/// Streams of threads are numbered from here on. No handle is as large, for they are addresses of the host, and no
/// number beyond 2^53, which JavaScript could not tell from its neighbours.
const FIRST_THREAD_STREAM: u64 = 1 << 52;

/// Marks the number of a thread among the streams that use a block.
const USED_BY_THREAD: u64 = 1 << 63;

thread_local! {
    static NUMBER: NonZeroU64 = {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        NonZeroU64::new(NEXT.fetch_add(1, Ordering::Relaxed)).unwrap_or(NonZeroU64::MAX)
    };
    static STREAM: ThreadStream = ThreadStream(take());
}

/// The calling thread's number, which no other thread of this process has, before or after; `u64::MAX` where the thread is
/// ending and has no thread-local values any more.
pub(crate) fn this_thread() -> NonZeroU64 {
    NUMBER.try_with(|&number| number).unwrap_or(NonZeroU64::MAX)
}

/// The number of a thread's own stream, which is free again when the thread has ended: otherwise a program that starts
/// threads for ever would make arenas for ever.
struct ThreadStream(u64);

impl Drop for ThreadStream {
    fn drop(&mut self) {
        let mut numbers = lock(&NUMBERS);
        numbers.free.push(self.0);
    }
}

struct Numbers {
    next: u64,
    free: Vec<u64>,
}

static NUMBERS: Mutex<Numbers> = Mutex::new(Numbers { next: FIRST_THREAD_STREAM, free: Vec::new() });

/// A number for a thread's own stream: one that is free again, or the next.
fn take() -> u64 {
    let mut numbers = lock(&NUMBERS);
    if let Some(number) = numbers.free.pop() {
        return number;
    }
    numbers.next += 1;
    numbers.next - 1
}

/// The number of the calling thread's own default stream (`_get_stream_identifier`, CuPy). No other living thread has it, but
/// a thread that begins after this one has ended may get it again.
pub(crate) fn own_stream() -> u64 {
    // A thread that is ending gets a number that never comes back.
    STREAM.try_with(|stream| stream.0).unwrap_or_else(|_| take())
}

/// Whether [`own_stream`] may have returned this number.
pub(crate) fn is_own_stream(stream: u64) -> bool {
    (FIRST_THREAD_STREAM..1 << 53).contains(&stream)
}

/// Names the calling thread's own stream among the streams that use a block. No other thread's has the same name, before or
/// after.
pub(crate) fn use_by_this_thread() -> u64 {
    USED_BY_THREAD | this_thread().get()
}

/// The stream on which an event can be recorded for a use by `stream`. `None` for another thread's own stream, which only
/// that thread can name to the driver.
pub(crate) fn stream_to_mark(stream: u64) -> Option<u64> {
    match stream & USED_BY_THREAD {
        0 => Some(stream),
        _ if this_thread() == NonZeroU64::MAX || stream != use_by_this_thread() => None,
        _ => Some(STREAM_PER_THREAD),
    }
}
