//! The device memory that launches, library calls and copies access. The recorder gets the addresses, if it is preloaded.

use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::{CStr, c_int};
use std::sync::{LazyLock, Mutex, OnceLock};

use vramscope_bare::sys;

use super::space::device_of;
use crate::graphs;
use crate::launches::{launched_by_library, library_stream};
use crate::machine::lock;
use crate::state::KEPT_BYTES;

/// Takes the addresses of a launch, which are in no order and may repeat.
type Take = extern "C" fn(flags: u64, addresses: *const u64, count: usize);

/// The parameters of the launch are unknown.
const UNKNOWN: u64 = 1;

/// A copy from the host: the first two words are its address and its size in bytes, all others are addresses in its contents.
const FROM_HOST: u64 = 2;

/// The recorder's function. `None` if no recorder is loaded, or if it records no accesses.
fn recorder() -> Option<Take> {
    static TAKE: OnceLock<Option<Take>> = OnceLock::new();
    const NAME: &CStr = c"vramscope_recorder_accesses";
    *TAKE.get_or_init(|| {
        // SAFETY: looks a name up in all loaded objects (`RTLD_DEFAULT`).
        let found = unsafe { sys::dlsym(std::ptr::null_mut(), NAME.as_ptr()) };
        if found.is_null() {
            return None;
        }
        // SAFETY: the recorder's function of this name has this signature.
        let found: extern "C" fn() -> Option<Take> = unsafe { std::mem::transmute(found) };
        found()
    })
}

/// Whether accesses are recorded.
pub(crate) fn are_recorded() -> bool {
    recorder().is_some()
}

/// Whether a word is an address of a device.
pub(crate) fn is_address(word: u64) -> bool {
    device_of(word).is_some()
}

/// A copy on a device, a memset or a message: the contents of the memory are not addresses that it follows.
const PLAIN: u64 = 4;

/// The addresses of one launch.
#[derive(Default)]
pub(crate) struct Found {
    addresses: Vec<u64>,
    flags: u64,
}

impl Found {
    /// Adds a word if it is an address of a device.
    pub(crate) fn word(&mut self, word: u64) {
        if is_address(word) && self.addresses.last() != Some(&word) {
            self.addresses.push(word);
        }
    }

    /// Adds all words of some bytes, at multiples of 8 bytes.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        bytes.as_chunks().0.iter().for_each(|&word| self.word(u64::from_le_bytes(word)));
    }

    /// Adds an argument of a library call: an address, or a descriptor with addresses.
    fn argument(&mut self, argument: u64) {
        self.word(argument);
        if let Some(attached) = lock(&ATTACHED).get(&argument) {
            attached.iter().for_each(|&(_, address)| self.word(address));
        }
    }

    /// The launch may access more.
    pub(crate) fn unknown(&mut self) {
        self.flags |= UNKNOWN;
    }
}

/// Records the accesses of a launch on a stream. Without a recorder, `find` does not run.
pub(crate) fn record(stream: usize, find: impl FnOnce(&mut Found)) {
    thread_local! {
        static BUFFER: Cell<Vec<u64>> = const { Cell::new(Vec::new()) };
    }
    let Some(take) = recorder() else { return };
    let mut found = Found { addresses: BUFFER.take(), flags: 0 };
    find(&mut found);
    let Found { mut addresses, flags } = found;
    graphs::access(stream, &addresses);
    take(flags, addresses.as_ptr(), addresses.len());
    addresses.clear();
    BUFFER.set(addresses);
}

/// Records a copy, a memset or a message that accesses these addresses, if they are of a device.
pub(crate) fn record_words(stream: usize, words: &[u64]) {
    record(stream, |found| {
        found.flags |= PLAIN;
        words.iter().for_each(|&word| found.word(word));
    });
}

/// Records a library call with these pointers and descriptors.
pub(crate) fn record_call(stream: usize, arguments: &[usize]) {
    record(stream, |found| arguments.iter().for_each(|&argument| found.argument(argument as u64)));
}

/// A library call with these pointers and descriptors, on the stream that was set for the library.
pub(crate) fn launch_by_library(arguments: &[usize]) -> c_int {
    record_call(library_stream(), arguments);
    launched_by_library()
}

/// Records a copy from the host to a device. Its contents may be addresses, which a later launch accesses.
pub(super) fn record_copy_from_host(stream: usize, to: u64, from: u64, size: u64) {
    let Some(take) = recorder() else { return };
    let mut found = Found { addresses: vec![to, size], flags: FROM_HOST };
    if size <= KEPT_BYTES {
        // SAFETY: the caller of a copy passes `size` bytes.
        found.bytes(unsafe { std::slice::from_raw_parts(super::space::pointer(from).cast(), size as usize) });
    }
    graphs::access(stream, &[to]);
    take(found.flags, found.addresses.as_ptr(), found.addresses.len());
}

/// An address attached to a descriptor, and the number of its place.
type Attached = (usize, u64);

/// The addresses in descriptors and handles of libraries.
static ATTACHED: LazyLock<Mutex<HashMap<u64, Vec<Attached>>>> = LazyLock::new(Mutex::default);

/// Attaches addresses to a descriptor, in places from `first`. Each replaces the earlier one of its place.
pub(crate) fn attach(descriptor: usize, first: usize, words: &[u64]) {
    if !are_recorded() {
        return;
    }
    let mut attached = lock(&ATTACHED);
    let of_descriptor = attached.entry(descriptor as u64).or_default();
    for (place, &word) in (first..).zip(words) {
        of_descriptor.retain(|&(of, _)| of != place);
        if device_of(word).is_some() {
            of_descriptor.push((place, word));
        }
    }
    if of_descriptor.is_empty() {
        attached.remove(&(descriptor as u64));
    }
}

/// The addresses of a descriptor, for another one that refers to it.
pub(crate) fn attached(descriptor: usize) -> Vec<u64> {
    lock(&ATTACHED).get(&(descriptor as u64)).into_iter().flatten().map(|&(_, address)| address).collect()
}

/// Forgets a descriptor.
pub(crate) fn detach(descriptor: usize) {
    if are_recorded() {
        lock(&ATTACHED).remove(&(descriptor as u64));
    }
}
