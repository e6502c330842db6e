//! This process's ring, and what each of its threads is doing.

use std::cell::Cell;
use std::fs::OpenOptions;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crate::ring::{AT_DROPPED, AT_LOOKS, AT_MAGIC, AT_PROCESS, AT_VERSION, HEADER, MAGIC, Ring, VERSION};
use crate::sys;

/// The folder of the run's rings.
const FOLDER: &str = "VRAMSCOPE_RECORDER";
/// Size of a ring in words, without its header: 16 MiB.
const CAPACITY: usize = 2 << 20;

/// The ring's words, once it exists.
static WORDS: AtomicPtr<AtomicU64> = AtomicPtr::new(std::ptr::null_mut());

/// Whether this process has a ring: [`UNKNOWN`], [`STARTING`], [`ON`] or [`OFF`].
static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);
const UNKNOWN: u8 = 0;
const STARTING: u8 = 1;
const ON: u8 = 2;
const OFF: u8 = 3;

/// Number of forks between the first process and this one: the child of a fork has another ring.
static FORKS: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// Whether this thread is inside this library.
    static BUSY: Cell<bool> = const { Cell::new(false) };
}

/// Proof that this thread is inside the library, and that its process has a ring.
#[derive(Debug)]
pub(crate) struct Inside(Ring<'static>);

impl Inside {
    /// Enters the library. `None` if the thread is inside already, or if the process is not recorded.
    pub(crate) fn enter() -> Option<Self> {
        // A thread that is ending has no thread-local values any more.
        if BUSY.try_with(|busy| busy.replace(true)) != Ok(false) {
            return None;
        }
        let ring = ring();
        if ring.is_none() {
            BUSY.set(false);
        }
        ring.map(Self)
    }

    /// Writes a record. If the ring is full, waits for its reader. Returns false if the reader has stopped; the record is then dropped.
    pub(crate) fn write(&self, kind: u8, body: &[u64]) -> bool {
        if self.0.try_write(kind, body) {
            return true;
        }
        let looks = self.0.header(AT_LOOKS);
        // The reader looks every few milliseconds. It is not waited for if it does not look for a second.
        let (mut seen, mut waited) = (looks.load(Ordering::Relaxed), 0);
        while waited < 1000 {
            std::thread::sleep(Duration::from_millis(1));
            if self.0.try_write(kind, body) {
                return true;
            }
            let now = looks.load(Ordering::Relaxed);
            waited = if now == seen { waited + 1 } else { 0 };
            seen = now;
        }
        // Every further event would wait as long.
        STATE.store(OFF, Ordering::Release);
        self.0.header(AT_DROPPED).fetch_add(1, Ordering::Relaxed);
        false
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        BUSY.set(false);
    }
}

fn ring() -> Option<Ring<'static>> {
    match STATE.load(Ordering::Acquire) {
        ON => {}
        OFF => {
            count_dropped();
            return None;
        }
        _ => start(),
    }
    mapped()
}

/// The ring, if it is mapped.
fn mapped() -> Option<Ring<'static>> {
    let words = WORDS.load(Ordering::Acquire);
    if words.is_null() {
        return None;
    }
    // SAFETY: the words are those of the mapping that `map` made, which is never unmapped.
    Ring::new(unsafe { std::slice::from_raw_parts(words, HEADER + CAPACITY) })
}

fn count_dropped() {
    if let Some(ring) = mapped() {
        ring.header(AT_DROPPED).fetch_add(1, Ordering::Relaxed);
    }
}

/// Creates the ring. Threads that come meanwhile wait: their events would be lost.
fn start() {
    if STATE.compare_exchange(UNKNOWN, STARTING, Ordering::AcqRel, Ordering::Acquire).is_err() {
        while STATE.load(Ordering::Acquire) == STARTING {
            std::thread::yield_now();
        }
        return;
    }
    static WATCHES_FORKS: AtomicBool = AtomicBool::new(false);
    if !WATCHES_FORKS.swap(true, Ordering::Relaxed) {
        // SAFETY: the handler stays loaded as long as the process, since a preloaded library is never unloaded.
        unsafe { sys::pthread_atfork(None, None, Some(forked)) };
    }
    let words = map();
    WORDS.store(words.unwrap_or(std::ptr::null_mut()), Ordering::Release);
    STATE.store(if words.is_some() { ON } else { OFF }, Ordering::Release);
}

/// Creates the file of the ring and maps it.
fn map() -> Option<*mut AtomicU64> {
    let folder = std::env::var_os(FOLDER)?;
    let process = std::process::id();
    let name = format!("{process}-{}", FORKS.load(Ordering::Relaxed));
    let path = std::path::Path::new(&folder).join(name);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(0o600);
    let bytes = (HEADER + CAPACITY) * size_of::<u64>();
    let file = options.open(path).ok()?;
    file.set_len(bytes as u64).ok()?;
    // SAFETY: a new shared mapping of the file, where the system finds room.
    let words = unsafe {
        let protection = sys::PROT_READ | sys::PROT_WRITE;
        sys::mmap(std::ptr::null_mut(), bytes, protection, sys::MAP_SHARED, file.as_raw_fd(), 0)
    };
    if words as isize == -1 {
        return None;
    }
    let words = words.cast::<AtomicU64>();
    // SAFETY: the mapping has this many words, all of them zero. The reader only uses atomic operations as well.
    let ring = Ring::new(unsafe { std::slice::from_raw_parts(words, HEADER + CAPACITY) })?;
    ring.header(AT_VERSION).store(VERSION, Ordering::Relaxed);
    ring.header(AT_PROCESS).store(process.into(), Ordering::Relaxed);
    ring.header(AT_MAGIC).store(MAGIC, Ordering::Release);
    Some(words)
}

/// Runs in the child of a fork. The parent's ring is the parent's alone.
extern "C" fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    WORDS.store(std::ptr::null_mut(), Ordering::Release);
    STATE.store(UNKNOWN, Ordering::Release);
    // The forking thread may be inside the library if a signal handler forks.
    BUSY.set(false);
}

/// Number of forks between the first process and this one.
pub(crate) fn forks() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// Microseconds since the Unix epoch.
pub(crate) fn time_us() -> u64 {
    let mut time = sys::Time::default();
    // SAFETY: the clock exists on every Linux, and the time is written in place.
    unsafe { sys::clock_gettime(sys::CLOCK_REALTIME, &raw mut time) };
    (time.seconds * 1_000_000 + time.nanoseconds / 1000) as u64
}
