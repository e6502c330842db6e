//! Calls a function of the library in another process, which loads the library first if it has to.
//!
//! One thread is stopped at a point at which it is neither in the loader nor in an allocator of memory, nor holds a lock of the loader. It
//! creates a thread, and goes on where it was. The new thread loads the library and calls the function. The code for this
//! (`stub.s`) is in bytes behind the code of a loaded object that nothing uses, and they are zeroed at the end. There are no breakpoints.
//! If this process is killed at any time, the other one goes on.

use std::fs;
use std::io;
use std::ops::Range;
use std::time::{Duration, Instant};

use nix::errno::Errno;

use super::memory::{Mapping, Memory, Object, mappings};
use super::stub::{self, MAGIC, STATE, Words};
use super::thread::{Debugged, NoStop, Places, seems_to_wait, threads};
use super::{CallError, Called};
use crate::running::is_stopped;

/// How long a free point is waited for.
const WAIT_FOR_POINT: Duration = Duration::from_secs(60);
/// How long the new thread may take: it waits for locks of the loader, and reads the loaded objects.
const WAIT_FOR_CALL: Duration = Duration::from_secs(30);
/// How long the thread that is interrupted may take.
const WAIT_FOR_THREAD: Duration = Duration::from_secs(5);
/// Time between two attempts. A program that does nothing but load libraries is rarely out of the loader.
const PAUSE: Duration = Duration::from_micros(200);
/// Results of the new thread without a result of the function.
const NOT_LOADED: u64 = 101;
const OTHER_RELEASE: u64 = 102;
/// Name of the new thread.
const THREAD: &str = "vramscope\n";

impl From<Errno> for CallError {
    fn from(error: Errno) -> Self {
        io::Error::from(error).into()
    }
}

/// Calls the function `texts[2]` of the library with two texts. `texts` begins with the name and the path of the library.
pub(super) fn call(process: u32, texts: [&str; 5]) -> Result<Called, CallError> {
    // A thread debugs, and its end releases the other process.
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| call_here(process, texts));
        thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread failed").into()))
    })
}

fn call_here(process: u32, texts: [&str; 5]) -> Result<Called, CallError> {
    let maps = fs::read_to_string(format!("/proc/{process}/maps"))?;
    let mappings = mappings(&maps);
    let memory = Memory::open(process)?;
    let objects = Object::all(&memory, &mappings);
    let functions = functions(&objects)?;
    let places = places(process, &memory, &mappings, &objects)?;
    wait_for_former(process);
    let (code, state) = room(&memory, &mappings, &objects, texts)?;
    let words = Words { functions, state: state.start, texts };
    let (bytes, entry) = stub::code(code.start, &words);
    let written = Written { memory: &memory, code: code.start, bytes: bytes.len(), state: state.start };
    let mut stopped = Duration::ZERO;
    let mut thread = at_free_point(process, &memory, &places, &mut stopped)?;
    memory.write(state.start, &[0; STATE]).and_then(|()| memory.write(code.start, &bytes))?;
    let called = thread.call(&memory, entry).map_err(CallError::from);
    if called.is_err() {
        thread.end();
    }
    called?;
    let result = written.wait(&mut thread, process);
    stopped = stopped.max(thread.stopped);
    let result = result?;
    Ok(Called { result, stopped })
}

/// Addresses of the functions that the code calls.
fn functions(objects: &[Object<'_>]) -> Result<[u64; 5], CallError> {
    const NAMES: [&str; 5] = ["pthread_create", "pthread_detach", "__errno_location", "dlopen", "dlsym"];
    // Before glibc 2.34, some of them are in libraries of their own, or have other names.
    const OTHERS: [&str; 2] = ["__libc_dlopen_mode", "__libc_dlsym"];
    let mut found = [0; 5];
    for start in ["libc.so", "libc-2.", "libpthread", "libdl"] {
        for object in objects.iter().filter(|object| object.first.name().starts_with(start)) {
            let [create, detach, errno, open, symbol] = object.symbols(NAMES).unwrap_or_default();
            let others = object.symbols(OTHERS).unwrap_or_default();
            let of_object = [create, detach, errno, open, symbol].map(|(address, _)| address);
            for (place, address) in found.iter_mut().zip(of_object) {
                *place = if *place == 0 { address } else { *place };
            }
            for (place, (address, _)) in found[3..].iter_mut().zip(others) {
                *place = if *place == 0 { address } else { *place };
            }
        }
    }
    match found.iter().position(|&address| address == 0) {
        Some(missing) => Err(CallError::NoFunction(NAMES[missing])),
        None => Ok(found),
    }
}

/// Where a thread must not be interrupted.
fn places(
    process: u32,
    memory: &Memory,
    mappings: &[Mapping],
    objects: &[Object<'_>],
) -> Result<Places, CallError> {
    let named = |starts: &[&str]| {
        let code = mappings.iter().filter(|m| m.is_executable);
        let code = code.filter(|m| starts.iter().any(|start| m.name().contains(start)));
        code.map(|m| m.range.clone()).collect::<Vec<_>>()
    };
    let loader = objects.iter().find(|object| object.first.name().starts_with("ld-"));
    let global = loader.and_then(|object| object.symbols(["_rtld_global"])).map(|[found]| found);
    let mut locks = Vec::new();
    let ids = threads(process);
    if let Some((at, size)) = global.filter(|&(at, _)| at != 0) {
        let bytes = memory.read(at, size.min(1 << 16) as usize)?;
        let lock = |bytes: &[u8]| {
            let number = |at: usize| u32::from_le_bytes(*bytes[at..].first_chunk().unwrap_or(&[0; 4]));
            // A lock that a thread can take several times: the lock, the count, the holder, users, kind, and zeros.
            let is_kind = number(16) == 1 && bytes[20..40].iter().all(|&byte| byte == 0);
            is_kind && (bytes[..16].iter().all(|&byte| byte == 0) || ids.contains(&number(8)))
        };
        let places = bytes.windows(40).enumerate().step_by(8).filter(|(_, bytes)| lock(bytes));
        locks.extend(places.map(|(place, _)| at + place as u64));
    }
    let c_library = named(&["libc.so", "libc-2."]);
    Ok(Places {
        locks,
        loader: named(&["ld-linux", "ld-2.", "[vdso]"]),
        with_locks: named(&[
            "libc.so",
            "libc-2.",
            "libpthread",
            "libdl",
            "libm.so",
            "malloc",
            "libcuda",
            "libnvidia",
            "vramscope",
        ]),
        code: mappings.iter().filter(|m| m.is_executable).map(|m| m.range.clone()).collect(),
        returns_of_handlers: returns_of_handlers(memory, &c_library),
    })
}

/// Addresses of `mov rax, 15` and a system call, which ends the handler of a signal.
fn returns_of_handlers(memory: &Memory, code: &[Range<u64>]) -> Vec<u64> {
    const INSTRUCTIONS: [u8; 9] = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];
    let found = |range: &Range<u64>| {
        let bytes = memory.read(range.start, (range.end - range.start) as usize).unwrap_or_default();
        let places = bytes.windows(INSTRUCTIONS.len()).enumerate().filter(|(_, at)| *at == INSTRUCTIONS);
        places.map(|(place, _)| range.start + place as u64).collect::<Vec<_>>()
    };
    code.iter().flat_map(found).collect()
}

/// Waits for the thread of an attach that was killed.
fn wait_for_former(process: u32) {
    let is_at_work = || {
        threads(process).into_iter().any(|thread| {
            fs::read_to_string(format!("/proc/{process}/task/{thread}/comm")).is_ok_and(|name| name == THREAD)
        })
    };
    let begin = Instant::now();
    while is_at_work() && begin.elapsed() < WAIT_FOR_CALL {
        std::thread::sleep(PAUSE);
    }
}

/// Unused bytes for the code and for its state.
fn room(
    memory: &Memory,
    mappings: &[Mapping],
    objects: &[Object<'_>],
    texts: [&str; 5],
) -> Result<(Range<u64>, Range<u64>), CallError> {
    let words = Words { functions: [0; 5], state: 0, texts };
    let needed = stub::code(0, &words).0.len();
    let is_unused = |range: &Range<u64>, bytes: usize| {
        let is_mapped = mappings.iter().any(|m| m.range.start <= range.start && range.end <= m.range.end);
        let read = memory.read(range.start, (range.end - range.start) as usize).unwrap_or_default();
        // Those of an attach that was killed.
        let former = if read.starts_with(&MAGIC) { 2048.min(read.len()) } else { 0 };
        is_mapped && read.len() >= bytes && read[former..].iter().all(|&byte| byte == 0)
    };
    let objects = || objects.iter().filter(|object| !object.first.name().starts_with("ld-"));
    let code = objects().filter_map(Object::behind_code).filter(|range| is_unused(range, needed));
    let code = code.max_by_key(|range| range.end - range.start).ok_or(CallError::NoRoom)?;
    let state = objects().filter_map(Object::behind_variables).find(|range| {
        let read = memory.read(range.start, STATE).unwrap_or_default();
        read.len() == STATE && range.end - range.start >= STATE as u64 && is_state(&read)
    });
    Ok((code, state.ok_or(CallError::NoRoom)?))
}

/// Whether the bytes are unused, or the state of an attach that was killed.
fn is_state(bytes: &[u8]) -> bool {
    let words: Vec<u64> =
        bytes.chunks_exact(8).map(|w| u64::from_le_bytes(*w.first_chunk().unwrap_or(&[0; 8]))).collect();
    matches!(words[..], [0..=200, 0..=1, 0..=200, 0..=1])
}

/// Stops threads one after the other until one can make the call.
fn at_free_point(
    process: u32,
    memory: &Memory,
    places: &Places,
    stopped: &mut Duration,
) -> Result<Debugged, CallError> {
    let begin = Instant::now();
    let mut late: Vec<Debugged> = Vec::new();
    while begin.elapsed() < WAIT_FOR_POINT {
        late.retain_mut(|thread| !thread.has_ended_late());
        if is_stopped(process) {
            return Err(CallError::Stopped);
        }
        let mut all = threads(process);
        if all.is_empty() {
            return Err(CallError::Ended);
        }
        // Threads that wait are the most likely ones, and lose no time.
        all.sort_by_cached_key(|&thread| !seems_to_wait(process, thread));
        for id in all {
            if late.iter().any(|thread| thread.is(id)) {
                continue;
            }
            let mut thread = match Debugged::begin(id) {
                Ok(thread) => thread,
                Err(Errno::ESRCH) => continue,
                Err(error) => return Err(error.into()),
            };
            let is_free = match thread.stop() {
                Ok(()) => thread.is_free(memory, places),
                Err(NoStop::Job) => {
                    thread.end();
                    return Err(CallError::Stopped);
                }
                Err(NoStop::Gone(Errno::ESRCH | Errno::ECHILD)) => continue,
                Err(NoStop::Late) => {
                    late.push(thread);
                    continue;
                }
                Err(NoStop::Gone(error)) => return Err(error.into()),
            };
            if is_free.as_ref().is_ok_and(|&is_free| is_free) {
                return Ok(thread);
            }
            thread.end();
            *stopped = (*stopped).max(thread.stopped);
        }
        std::thread::sleep(PAUSE);
    }
    Err(CallError::NoPoint)
}

/// The code in the process.
struct Written<'a> {
    memory: &'a Memory,
    code: u64,
    bytes: usize,
    state: u64,
}

impl Written<'_> {
    /// Waits until both threads have left the code, and zeroes it. Returns the result of the function.
    fn wait(&self, thread: &mut Debugged, process: u32) -> Result<u64, CallError> {
        let state = |word: u64| self.memory.word(self.state + 8 * word);
        let begin = Instant::now();
        loop {
            thread.pass_signals();
            let is_done = state(1)? != 0;
            let code = self.code..self.code + self.bytes as u64;
            if is_done && thread.stop().is_ok() {
                let is_out = thread.next_instruction().is_ok_and(|at| !code.contains(&at));
                thread.end();
                if is_out {
                    break;
                }
                return Err(CallError::Late);
            }
            if begin.elapsed() > WAIT_FOR_THREAD {
                return Err(CallError::Late);
            }
            std::thread::sleep(Duration::from_micros(100));
        }
        match state(0)? {
            1 => {}
            status => {
                self.remove();
                return Err(CallError::NoThread(status - 1));
            }
        }
        while state(2)? == 0 {
            if begin.elapsed() > WAIT_FOR_CALL {
                // The new thread does not call the function later.
                self.memory.write(self.state + 24, &1_u64.to_le_bytes())?;
                return Err(CallError::Late);
            }
            std::thread::sleep(PAUSE);
        }
        let result = state(2)? - 1;
        // Its last instructions are in the code.
        wait_for_former(process);
        self.remove();
        match result {
            NOT_LOADED => Err(CallError::NotLoaded),
            OTHER_RELEASE => Err(CallError::OtherRelease),
            result => Ok(result),
        }
    }

    /// Zeroes the bytes, as they were.
    fn remove(&self) {
        // The process has ended otherwise.
        self.memory.write(self.code, &vec![0; self.bytes]).ok();
        self.memory.write(self.state, &[0; STATE]).ok();
    }
}
