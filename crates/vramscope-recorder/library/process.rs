//! This process's ring, and what each of its threads is doing.

use std::cell::Cell;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use vramscope_bare::sys;

use crate::ring::{
    AT_ATTACHED, AT_DROPPED, AT_ENDED, AT_LOOKS, AT_MAGIC, AT_PROCESS, AT_RANK, AT_REFUSES, AT_STACK,
    AT_VERSION, HEADER, MAGIC, Ring, VERSION,
};
use crate::{facts, ring_file};

/// Longest time for which a thread waits for a reader that lives and does not look: it gets no processor, or waits for its disk.
const MOST_WAIT_MS: u32 = 60_000;
/// A file beside the folder of the rings, which the reader locks as long as it lives.
const READER: &str = "lock";
/// The folder of this process's ring. Never freed.
static RING_FOLDER: AtomicPtr<PathBuf> = AtomicPtr::new(std::ptr::null_mut());

/// Whether the ring's reader lives.
fn reader_lives() -> bool {
    // SAFETY: null, or a value that is never freed.
    let folder = unsafe { RING_FOLDER.load(Ordering::Acquire).as_ref() };
    let file = folder.and_then(|folder| open_own(&folder.parent()?.join(READER)));
    file.is_some_and(|file| file.try_lock_shared().is_err())
}

/// Opens a regular file of this user. Once the recorder's folder is gone, another user may have made one of its name, with a link or a
/// pipe in it.
fn open_own(path: &Path) -> Option<File> {
    let flags = sys::O_NOFOLLOW | sys::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let found = file.metadata().ok()?;
    // SAFETY: takes and changes nothing.
    (found.is_file() && found.uid() == unsafe { sys::geteuid() }).then_some(file)
}

/// The environment variable with the folder of the run's rings.
const FOLDER: &str = "VRAMSCOPE_RECORDER";
/// That folder, if the library was attached. Never freed: a forked process reads it later.
static ATTACHED_FOLDER: AtomicPtr<PathBuf> = AtomicPtr::new(std::ptr::null_mut());
/// Size of a ring in words, without its header: 16 MiB.
const CAPACITY: usize = 2 << 20;

/// The ring's words, once it exists.
static WORDS: AtomicPtr<AtomicU64> = AtomicPtr::new(std::ptr::null_mut());

/// Whether this process has a ring: [`UNKNOWN`], [`STARTING`], [`ON`], [`OFF`] or [`DETACHED`].
static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);
const UNKNOWN: u8 = 0;
const STARTING: u8 = 1;
const ON: u8 = 2;
/// The reader has stopped, or there is no ring.
const OFF: u8 = 3;
/// The library passes all calls on.
const DETACHED: u8 = 4;

/// Number of rings before this one, here and in the processes that this one was forked from.
static RINGS: AtomicU32 = AtomicU32::new(0);

/// Threads inside the library, counted in several places so that they seldom share one.
static INSIDE: [Counter; 32] = [const { Counter(AtomicU32::new(0)) }; 32];
/// Whether threads are counted: a preloaded library is never detached.
static COUNTS: AtomicBool = AtomicBool::new(false);

/// A counter in a separate cache line.
#[repr(align(64))]
struct Counter(AtomicU32);

thread_local! {
    /// Whether this thread is inside this library.
    static BUSY: Cell<bool> = const { Cell::new(false) };
    /// One more than the number of this thread's counter; 0 if it has none yet.
    static COUNTER: Cell<usize> = const { Cell::new(0) };
}

/// Counts this thread as inside the library.
fn count() -> &'static AtomicU32 {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let mut number = COUNTER.get();
    if number == 0 {
        number = NEXT.fetch_add(1, Ordering::Relaxed) % INSIDE.len() + 1;
        COUNTER.set(number);
    }
    let counter = &INSIDE[number - 1].0;
    counter.fetch_add(1, Ordering::SeqCst);
    counter
}

/// Proof that this thread is inside the library, and that its process has a ring.
#[derive(Debug)]
pub(crate) struct Inside {
    ring: Ring<'static>,
    counter: Option<&'static AtomicU32>,
}

impl Inside {
    /// Enters the library. `None` if the thread is inside already, or if the process is not recorded.
    pub(crate) fn enter() -> Option<Self> {
        // A thread that is ending has no thread-local values any more.
        if BUSY.try_with(|busy| busy.replace(true)) != Ok(false) {
            return None;
        }
        let counter = COUNTS.load(Ordering::Relaxed).then(count);
        let Some(ring) = ring() else {
            leave(counter);
            return None;
        };
        Some(Self { ring, counter })
    }

    /// Writes a statement about how this process is recorded.
    pub(crate) fn state(&self, name: &str, text: &[u8]) {
        facts::write(self.ring, name, text);
    }

    /// Writes a record. If the ring is full, waits for its reader. Returns false if the reader has stopped; the record is then dropped.
    pub(crate) fn write(&self, kind: u8, body: &[u64]) -> bool {
        let is_written = self.ring.try_write(kind, body) || self.write_later(kind, body);
        // The reader had the next words last. They are on the way while the program goes on.
        sys::fetch_for_writing(self.ring.word_after(8));
        is_written
    }

    /// Writes a record to a ring that is full.
    #[cold]
    #[inline(never)]
    fn write_later(&self, kind: u8, body: &[u64]) -> bool {
        let looks = self.ring.header(AT_LOOKS);
        let refuses = self.ring.header(AT_REFUSES);
        let (mut seen, mut waited) = (looks.load(Ordering::Relaxed), 0);
        // The reader looks every few milliseconds. If it does not look for a second, it may have ended.
        while waited < MOST_WAIT_MS
            && refuses.load(Ordering::Relaxed) == 0
            && STATE.load(Ordering::Relaxed) == ON
            && (waited == 0 || waited % 1000 != 0 || reader_lives())
        {
            std::thread::sleep(Duration::from_millis(1));
            if self.ring.try_write(kind, body) {
                return true;
            }
            let now = looks.load(Ordering::Relaxed);
            waited = if now == seen { waited + 1 } else { 0 };
            seen = now;
        }
        // Every further event would wait as long.
        STATE.compare_exchange(ON, OFF, Ordering::AcqRel, Ordering::Relaxed).ok();
        self.ring.header(AT_DROPPED).fetch_add(1, Ordering::Relaxed);
        false
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        leave(self.counter);
    }
}

fn leave(counter: Option<&AtomicU32>) {
    if let Some(counter) = counter {
        counter.fetch_sub(1, Ordering::Release);
    }
    BUSY.set(false);
}

fn ring() -> Option<Ring<'static>> {
    match STATE.load(Ordering::SeqCst) {
        ON => {}
        DETACHED => return None,
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
    // SAFETY: the words are those of the mapping that `map` made. `end` unmaps it after all threads have left.
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
    create(0);
}

/// Creates the ring. `attached` is the time of attaching to a process that used a GPU, or 0.
fn create(attached: u64) -> bool {
    static WATCHES_FORKS: AtomicBool = AtomicBool::new(false);
    if !WATCHES_FORKS.swap(true, Ordering::Relaxed) {
        // SAFETY: the handler stays loaded as long as the process: the library is never unloaded.
        unsafe { sys::pthread_atfork(None, None, Some(forked)) };
    }
    let words = map(attached);
    WORDS.store(words.unwrap_or(std::ptr::null_mut()), Ordering::Release);
    STATE.store(if words.is_some() { ON } else { OFF }, Ordering::Release);
    words.is_some()
}

/// Begins to record to a new ring in this folder. `used_gpu` says whether the process may have memory already. Returns false if the ring
/// cannot be created. The process must not be recorded.
pub(crate) fn begin(folder: PathBuf, used_gpu: bool) -> bool {
    ATTACHED_FOLDER.store(Box::into_raw(Box::new(folder)), Ordering::Release);
    COUNTS.store(true, Ordering::SeqCst);
    let is_created = create(if used_gpu { time_us() } else { 0 });
    if !is_created {
        STATE.store(DETACHED, Ordering::Release);
    }
    is_created
}

/// Ends the recording. Its last record is complete when this returns, and the reader learns that none follows.
pub(crate) fn end() {
    STATE.store(DETACHED, Ordering::SeqCst);
    let begin = Instant::now();
    // A thread that waits for the reader gives up.
    let is_empty = loop {
        if INSIDE.iter().all(|counter| counter.0.load(Ordering::SeqCst) == 0) {
            break true;
        }
        if begin.elapsed() > Duration::from_secs(3) {
            break false;
        }
        std::thread::sleep(Duration::from_micros(100));
    };
    if let Some(ring) = mapped() {
        ring.header(AT_ENDED).store(1, Ordering::Release);
    }
    let words = WORDS.swap(std::ptr::null_mut(), Ordering::AcqRel);
    if is_empty && !words.is_null() {
        // SAFETY: the mapping that `map` made. No thread is inside, and those that enter find no ring.
        unsafe { sys::munmap(words.cast(), BYTES) };
    }
    RINGS.fetch_add(1, Ordering::AcqRel);
}

/// Whether calls are recorded, and the ring's reader looks at it. No other thread may end the recording meanwhile.
pub(crate) fn is_recorded() -> bool {
    let looks = || mapped().map(|ring| ring.header(AT_LOOKS).load(Ordering::Relaxed));
    if STATE.load(Ordering::Acquire) != ON {
        return false;
    }
    let before = looks();
    (0..30).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        looks() != before
    })
}

/// Whether all calls are only passed on.
pub(crate) fn is_detached() -> bool {
    STATE.load(Ordering::Acquire) == DETACHED
}

/// What looks for objects that were loaded after attaching; 0 unless the library is attached.
static LOOKS: AtomicUsize = AtomicUsize::new(0);
/// Time of the last look, in microseconds.
static LOOKED: AtomicU64 = AtomicU64::new(0);
/// Time between looks at events, in microseconds.
const LOOK_INTERVAL: u64 = 10_000;

/// Sets what looks for objects that were loaded after attaching.
pub(crate) fn set_look(look: Option<fn(bool)>) {
    LOOKS.store(look.map_or(0, |look| look as usize), Ordering::Release);
}

/// Looks for new objects at an event, now and then.
#[inline]
pub(crate) fn look_for_objects(time: u64) {
    if LOOKS.load(Ordering::Relaxed) != 0 && time.wrapping_sub(LOOKED.load(Ordering::Relaxed)) > LOOK_INTERVAL
    {
        LOOKED.store(time, Ordering::Relaxed);
        look_now(false);
    }
}

/// Looks for new objects. `asks` says that the calling thread may wait for the loader.
#[cold]
#[inline(never)]
pub(crate) fn look_now(asks: bool) {
    let look = LOOKS.load(Ordering::Acquire);
    if look != 0 {
        // SAFETY: `set_look` stored a function of this type.
        let look: fn(bool) = unsafe { std::mem::transmute(look) };
        look(asks);
    }
}

/// Size of a ring's file, in bytes.
const BYTES: usize = (HEADER + CAPACITY) * size_of::<u64>();

/// Creates the file of the ring and maps it.
fn map(attached_us: u64) -> Option<*mut AtomicU64> {
    // SAFETY: null, or a value that is never freed.
    let attached = unsafe { ATTACHED_FOLDER.load(Ordering::Acquire).as_ref() };
    let folder = attached.cloned().or_else(|| std::env::var_os(FOLDER).map(PathBuf::from))?;
    if RING_FOLDER.load(Ordering::Acquire).is_null() || attached.is_some() {
        RING_FOLDER.store(Box::into_raw(Box::new(folder.clone())), Ordering::Release);
    }
    // A process may run several programs, and a later process of the run may have its number.
    let name = format!("{}-{}-{}", std::process::id(), ring_number(), time_us());
    let words = ring_file::create(&folder, &name, BYTES)?.cast::<AtomicU64>();
    // SAFETY: the mapping has this many words, all of them zero. The reader only uses atomic operations as well.
    let ring = Ring::new(unsafe { std::slice::from_raw_parts(words, HEADER + CAPACITY) })?;
    ring.header(AT_VERSION).store(VERSION, Ordering::Relaxed);
    ring.header(AT_PROCESS).store(std::process::id().into(), Ordering::Relaxed);
    ring.header(AT_ATTACHED).store(attached_us, Ordering::Relaxed);
    ring.header(AT_RANK).store(rank().map_or(0, |rank| rank.saturating_add(1)), Ordering::Relaxed);
    ring.header(AT_STACK).store(stack_start().unwrap_or(0), Ordering::Relaxed);
    ring.header(AT_MAGIC).store(MAGIC, Ordering::Release);
    facts::write_environment(ring);
    Some(words)
}

/// The rank of this process among several.
fn rank() -> Option<u64> {
    let number = |name| std::env::var(name).ok()?.parse::<u64>().ok();
    (number("WORLD_SIZE")? > 1).then(|| number("RANK")).flatten()
}

/// Where the stack of this program begins, as Linux shows it to other processes.
fn stack_start() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The 28th field; the name of the program, in parentheses, is the second.
    status.rsplit_once(')')?.1.split_whitespace().nth(25)?.parse().ok()
}

/// Runs in the child of a fork. The parent's ring is the parent's alone.
extern "C" fn forked() {
    RINGS.fetch_add(1, Ordering::Relaxed);
    WORDS.store(std::ptr::null_mut(), Ordering::Release);
    if !is_detached() {
        STATE.store(UNKNOWN, Ordering::Release);
    }
    // The parent's other threads do not exist here.
    INSIDE.iter().for_each(|counter| counter.0.store(0, Ordering::Relaxed));
    // The forking thread may be inside the library if a signal handler forks.
    BUSY.set(false);
}

/// Number of the ring: different for each ring of a process, and higher in a forked process.
pub(crate) fn ring_number() -> u32 {
    RINGS.load(Ordering::Relaxed)
}

/// Microseconds since the Unix epoch.
pub(crate) fn time_us() -> u64 {
    let mut time = sys::Time::default();
    // SAFETY: the clock exists on every Linux, and the time is written in place.
    unsafe { sys::clock_gettime(sys::CLOCK_REALTIME, &raw mut time) };
    (time.seconds * 1_000_000 + time.nanoseconds / 1000) as u64
}
