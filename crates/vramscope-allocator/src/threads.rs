//! Numbers of threads, and of their per-thread default streams.

use std::cell::Cell;
use std::num::NonZeroU64;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::LocalKey;

use vramscope_basics::lock;

/// `cudaStreamPerThread`: a handle that means a different stream on every thread.
pub(crate) const STREAM_PER_THREAD: u64 = 2;

/// First number of a thread's stream. Stream handles are smaller, because they are host addresses. Numbers stay below 2^53, above which
/// JavaScript cannot represent every integer.
const FIRST_THREAD_STREAM: u64 = 1 << 52;

/// Marks a thread's number among the streams that use a block.
const USED_BY_THREAD: u64 = 1 << 63;

thread_local! {
    static NUMBER: NonZeroU64 = {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        NonZeroU64::new(NEXT.fetch_add(1, Ordering::Relaxed)).unwrap_or(NonZeroU64::MAX)
    };
    static STREAM: ThreadStream = ThreadStream(take());
}

/// Returns the calling thread's number, unique in this process and never reused. `u64::MAX` if the thread is ending and has no thread-local
/// values left.
pub(crate) fn this_thread() -> NonZeroU64 {
    NUMBER.try_with(|&number| number).unwrap_or(NonZeroU64::MAX)
}

/// Sets a flag of this thread until it is dropped.
pub(crate) struct FlagSet {
    flag: &'static LocalKey<Cell<bool>>,
    before: bool,
}

impl FlagSet {
    #[inline]
    pub(crate) fn of(flag: &'static LocalKey<Cell<bool>>) -> Self {
        Self { flag, before: flag.replace(true) }
    }
}

impl Drop for FlagSet {
    #[inline]
    fn drop(&mut self) {
        self.flag.set(self.before);
    }
}

/// The number of a thread's stream. It becomes free when the thread ends; otherwise a program that keeps starting threads would create ever
/// more arenas.
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

/// Returns a number for a thread's stream: a free one, or the next.
fn take() -> u64 {
    let mut numbers = lock(&NUMBERS);
    if let Some(number) = numbers.free.pop() {
        return number;
    }
    numbers.next += 1;
    numbers.next - 1
}

/// Returns the number of the calling thread's default stream (`_get_stream_identifier`, CuPy). It is unique among living threads. A thread
/// that starts after this one ended may reuse it.
pub(crate) fn own_stream() -> u64 {
    // A thread that is ending gets a number that is never reused.
    STREAM.try_with(|stream| stream.0).unwrap_or_else(|_| take())
}

/// Whether [`own_stream`] may have returned this number.
pub(crate) fn is_own_stream(stream: u64) -> bool {
    (FIRST_THREAD_STREAM..1 << 53).contains(&stream)
}

/// Identifies the calling thread's stream among the streams that use a block. The value is unique and never reused.
pub(crate) fn use_by_this_thread() -> u64 {
    USED_BY_THREAD | this_thread().get()
}

/// Returns the stream on which to record an event for a use by `stream`. `None` for another thread's stream, which only that thread can
/// name to the driver.
pub(crate) fn stream_to_mark(stream: u64) -> Option<u64> {
    match stream & USED_BY_THREAD {
        0 => Some(stream),
        _ if this_thread() == NonZeroU64::MAX || stream != use_by_this_thread() => None,
        _ => Some(STREAM_PER_THREAD),
    }
}
