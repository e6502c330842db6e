//! Attaching to a program that already runs.
//!
//! Its objects have the addresses of the real functions in many words. Attaching changes them to those of ours, and detaching changes them
//! back:
//! - words that the loader has set, by the name of the function;
//! - variables that have the address of a function of the driver, such as the tables of CUDA's runtime and of PyTorch, by their value.
//!
//! Objects that are loaded later are changed when the program next looks up a name, or at an event.

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use vramscope_bare::objects::{self, Object, Slot};
use vramscope_bare::sys;

use crate::entry_points::{self, our_dlsym};
use crate::mapped::{Mapped, each_object};
use crate::next::{find, look_up};
use crate::process;
use crate::wrap::Wrapped;
use crate::{driver, not_followed, reading, stack, torch};

/// Results of attaching.
const DONE: c_int = 0;
/// The process is recorded already, or another thread attaches or detaches.
const RECORDED: c_int = 1;
/// `vramscope run` records the process, from its start to its end.
const PRELOADED: c_int = 2;
/// The ring cannot be created in the folder.
const NO_RING: c_int = 3;
/// Not attached.
const NOT_ATTACHED: c_int = 4;

/// What attaching has changed.
struct Patches {
    is_attached: bool,
    words: Vec<Changed>,
    /// Objects that were visited.
    visited: Vec<usize>,
    /// Number of loaded and of unloaded objects at the last visit.
    loads: u64,
    unloads: u64,
    /// Number of visits that found an object that was still being loaded.
    early: u32,
    known: Known,
}

/// A changed word.
#[derive(Clone, Copy)]
struct Changed {
    address: usize,
    old: usize,
    ours: usize,
}

/// Addresses of real functions. They are looked up before the visit: a visit must not call the loader.
struct Known {
    /// Functions of the driver with ours, by address.
    driver: Vec<(usize, usize)>,
    /// Functions by name, for words that are set at the first call.
    names: Vec<(CString, usize)>,
}

static PATCHES: Mutex<Patches> = Mutex::new(Patches {
    is_attached: false,
    words: Vec::new(),
    visited: Vec::new(),
    loads: 0,
    unloads: 0,
    early: 0,
    known: Known { driver: Vec::new(), names: Vec::new() },
});

/// Waits for other threads that attach or detach. In a forked process, one of them may have held the lock: then there is no end.
fn lock() -> Option<MutexGuard<'static, Patches>> {
    let begin = Instant::now();
    loop {
        match PATCHES.try_lock() {
            Ok(patches) => return Some(patches),
            Err(TryLockError::Poisoned(patches)) => return Some(patches.into_inner()),
            Err(TryLockError::WouldBlock) if begin.elapsed() < Duration::from_secs(10) => {
                std::thread::sleep(Duration::from_micros(200));
            }
            Err(TryLockError::WouldBlock) => return None,
        }
    }
}

/// Begins to record this process to a ring in `folder`. `stacks` is `none`, `python`, `all` or `large:` and a number of bytes; null is
/// `python`. The library must be loaded by `dlopen`, without `RTLD_GLOBAL`. Returns 0, or a number that says why not.
#[unsafe(no_mangle)]
extern "C" fn vramscope_recorder_attach(folder: *const c_char, stacks: *const c_char) -> c_int {
    if is_preloaded() {
        return PRELOADED;
    }
    attach(path(folder), &text(stacks))
}

/// Ends the recording. Returns 0, or 4 if the process is not recorded.
#[unsafe(no_mangle)]
extern "C" fn vramscope_recorder_detach() -> c_int {
    let Some(mut patches) = lock() else { return RECORDED };
    if !patches.is_attached {
        return NOT_ATTACHED;
    }
    detach(&mut patches);
    DONE
}

/// Attaches in a new thread, for a debugger: the debugger stops the calling thread anywhere, perhaps while it holds a lock of the driver.
#[unsafe(no_mangle)]
extern "C" fn vramscope_recorder_attach_in_thread(folder: *const c_char, stacks: *const c_char) -> c_int {
    if is_preloaded() {
        return PRELOADED;
    }
    match PATCHES.try_lock() {
        Ok(patches) if patches.is_attached && process::is_recorded() => return RECORDED,
        Err(TryLockError::WouldBlock) => return RECORDED,
        _ => {}
    }
    let (folder, stacks) = (path(folder), text(stacks));
    in_thread(move || attach(folder, &stacks))
}

/// Detaches in a new thread.
#[unsafe(no_mangle)]
extern "C" fn vramscope_recorder_detach_in_thread() -> c_int {
    in_thread(|| vramscope_recorder_detach())
}

fn in_thread(body: impl FnOnce() -> c_int + Send + 'static) -> c_int {
    let thread = std::thread::Builder::new().name("vramscope".to_owned()).spawn(|| {
        // The program's signals are for its own threads.
        let all = sys::SignalSet([0xff; 128]);
        // SAFETY: the set is valid, and the old one is not wanted.
        unsafe { sys::pthread_sigmask(sys::SIG_BLOCK, &raw const all, std::ptr::null_mut()) };
        body();
    });
    if thread.is_ok() { DONE } else { NO_RING }
}

fn path(text: *const c_char) -> PathBuf {
    // SAFETY: the caller passes a zero-terminated text.
    OsStr::from_bytes(unsafe { CStr::from_ptr(text) }.to_bytes()).into()
}

fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller passes a zero-terminated text.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// Whether this library, or another copy of it, was preloaded: then its functions are in the global scope.
fn is_preloaded() -> bool {
    // SAFETY: null stands for the program itself; nothing is loaded.
    let program = unsafe { sys::dlopen(std::ptr::null(), sys::RTLD_LAZY) };
    !look_up(program, c"vramscope_recorder_attach".as_ptr()).is_null()
}

fn attach(folder: PathBuf, stacks: &str) -> c_int {
    let Some(mut patches) = lock() else { return RECORDED };
    if patches.is_attached {
        if process::is_recorded() {
            return RECORDED;
        }
        // The reader has ended without detaching.
        detach(&mut patches);
    }
    stack::set(stacks);
    if !process::begin(folder, reading::has_context()) {
        return NO_RING;
    }
    patches.is_attached = true;
    patches.early = 0;
    patches.known = Known::look_up();
    patches.visit(true);
    process::set_look(Some(look));
    DONE
}

fn detach(patches: &mut Patches) {
    process::set_look(None);
    patches.restore();
    process::end();
    patches.is_attached = false;
}

/// Changes objects that were loaded since the last visit.
fn look(asks: bool) {
    let Ok(mut patches) = PATCHES.try_lock() else { return };
    let (loads, unloads) = objects::counts();
    if patches.is_attached && (patches.loads, patches.unloads) != (loads, unloads) {
        patches.visit(asks);
    }
}

/// Suffixes of the driver's functions: those of revisions, and of functions for per-thread default streams.
const SUFFIXES: [&str; 9] =
    ["", "_v2", "_v3", "_ptds", "_ptsz", "_v2_ptds", "_v2_ptsz", "_v3_ptds", "_v3_ptsz"];

/// Releases for which `cuGetProcAddress` may answer differently.
const RELEASES: [c_int; 13] =
    [2000, 3020, 4000, 6000, 8000, 9000, 10020, 11000, 11020, 11030, 12000, 12050, 13000];

/// The driver's library; null if it is not loaded.
fn loaded_driver() -> *mut c_void {
    // SAFETY: the name is zero-terminated. Nothing is loaded; the reference keeps the library loaded, as the program does.
    unsafe { sys::dlopen(c"libcuda.so.1".as_ptr(), sys::RTLD_LAZY | sys::RTLD_NOLOAD) }
}

impl Known {
    fn look_up() -> Self {
        let mut known = Self { driver: Vec::new(), names: Vec::new() };
        entry_points::all().for_each(Wrapped::keep_linked);
        let driver = loaded_driver();
        if !driver.is_null() {
            for row in driver::ROWS.iter().chain(entry_points::ROWS).filter(|row| row.name.starts_with("cu"))
            {
                known.add_driver(row, driver);
            }
        }
        known.driver.sort_unstable();
        known.driver.dedup_by_key(|&mut (real, _)| real);
        let names = entry_points::all().flat_map(|row| {
            let linked = row.linked_name.to_owned();
            [Ok(linked), CString::new(row.name), CString::new(format!("{}_ptsz", row.name))]
        });
        known.names.extend(names.flatten().map(|name| {
            let address = find(&name);
            (name, address)
        }));
        known
    }

    fn add_driver(&mut self, row: &'static Wrapped, driver: *mut c_void) {
        let mut add = |real: usize| {
            let ours = if real == 0 || sys::is_own(real) { real } else { row.before(real) };
            if ours != real {
                self.driver.push((real, ours));
            }
        };
        for suffix in SUFFIXES {
            let name = format!("{}{suffix}\0", row.name);
            add(look_up(driver, name.as_ptr().cast()) as usize);
        }
        let name = format!("{}\0", row.name);
        let lookup = [c"cuGetProcAddress_v2", c"cuGetProcAddress"]
            .into_iter()
            .map(|name| look_up(driver, name.as_ptr()))
            .find(|found| !found.is_null());
        let Some(lookup) = lookup else { return };
        // SAFETY: the function of this name has these arguments; the first revision ignores the last one.
        let lookup: extern "C" fn(*const c_char, *mut usize, c_int, u64, *mut c_int) -> c_int =
            unsafe { std::mem::transmute(lookup) };
        for release in RELEASES {
            // The legacy default stream, and per-thread ones.
            for flags in [1, 2] {
                let (mut found, mut status) = (0, 0);
                if lookup(name.as_ptr().cast(), &raw mut found, release, flags, &raw mut status) == 0 {
                    add(found);
                }
            }
        }
    }

    fn name(&self, name: &CStr) -> usize {
        self.names.iter().find(|(known, _)| known.as_c_str() == name).map_or(0, |&(_, address)| address)
    }

    fn ours(&self, real: usize) -> Option<usize> {
        let at = self.driver.binary_search_by_key(&real, |&(real, _)| real).ok()?;
        Some(self.driver[at].1)
    }
}

/// Whether an object is not changed: this library, the driver, and the parts of the system that call no function of ours.
fn is_left_alone(object: Object<'_>, known: &Known) -> bool {
    const NAMES: [&[u8]; 6] =
        [b"libcuda.so", b"libnvidia-", b"libc.so.", b"libdl.so.", b"ld-linux", b"linux-vdso"];
    NAMES.iter().any(|start| object.file_name().starts_with(start))
        || object.contains(our_dlsym())
        || known.driver.iter().any(|&(real, _)| object.contains(real))
}

impl Patches {
    /// Changes all objects that were not visited before. `asks` says that the calling thread may wait for the loader.
    fn visit(&mut self, asks: bool) {
        let lacks_names = self.visit_once(false);
        if asks && (lacks_names || self.known.driver.is_empty() && !loaded_driver().is_null()) {
            self.known = Known::look_up();
            self.visited.clear();
            self.visit_once(true);
        }
    }

    /// Visits the objects once. Returns whether an object needs a function that is not known yet; `is_last` says that there is none.
    fn visit_once(&mut self, is_last: bool) -> bool {
        // No memory is allocated during a visit: another thread may wait for the loader while it holds a lock of the allocator.
        for _ in 0..64 {
            self.words.reserve(1 << 12);
            let (loads, unloads) = objects::counts();
            if unloads != self.unloads {
                // Another object may be at the place of a former one.
                self.visited.clear();
            }
            self.visited.reserve(1 << 12);
            let (mut is_full, mut is_early, mut lacks_names) = (false, false, false);
            each_object(|object, mapped| {
                let is_known = self.visited.contains(&object.id()) || is_left_alone(object, &self.known);
                if is_full || is_known {
                    return;
                }
                let room = self.words.capacity();
                let (mut early, mut lacks) = (false, false);
                let (words, known) = (&mut self.words, &self.known);
                let mut add = |word: &std::sync::atomic::AtomicUsize, old, ours, is_sealed| {
                    if words.len() == room {
                        is_full = true;
                    } else if objects::change(word, old, ours, is_sealed) {
                        let changed = Changed { address: std::ptr::from_ref(word) as usize, old, ours };
                        // A former object, which was unloaded, may have had a word there.
                        match words.iter_mut().find(|former| former.address == changed.address) {
                            Some(former) => *former = changed,
                            None => words.push(changed),
                        }
                    }
                };
                let sealed = object.sealed();
                object.slots(|slot| match known.change(object, &slot) {
                    Change::None => {}
                    Change::Early => early = true,
                    Change::Unknown => lacks = !is_last,
                    Change::To(old, ours) => {
                        let address = std::ptr::from_ref(slot.word) as usize;
                        match (sealed.contains(&address), mapped.is_writable(address)) {
                            (true, Some(false)) => add(slot.word, old, ours, true),
                            (false, Some(true)) => add(slot.word, old, ours, false),
                            // The loader has not finished this object.
                            _ => early = true,
                        }
                    }
                });
                each_variable(object, mapped, known.range(), |word, value| {
                    if let Some(ours) = known.ours(value) {
                        add(word, value, ours, false);
                    }
                });
                let is_done = !is_full && !early && !lacks;
                (is_early, lacks_names) = (is_early | early, lacks_names | lacks);
                if is_done && self.visited.len() < self.visited.capacity() {
                    self.visited.push(object.id());
                }
            });
            if is_full {
                continue;
            }
            let is_early = is_early || lacks_names;
            self.early += u32::from(is_early);
            (self.loads, self.unloads) = (loads, unloads);
            if is_early && self.early < 1000 {
                // The next look visits again.
                self.loads = 0;
            }
            return lacks_names;
        }
        false
    }

    /// Changes all words back, where they still have an address of ours.
    fn restore(&mut self) {
        let mut copies: Vec<(usize, usize)> =
            entry_points::all().flat_map(Wrapped::taken).chain(not_followed::taken()).collect();
        copies.sort_unstable();
        let range = copies.first().map_or(0, |copy| copy.0)..copies.last().map_or(0, |copy| copy.0 + 1);
        let (words, known) = (&self.words, &self.known);
        each_object(|object, mapped| {
            if is_left_alone(object, known) {
                return;
            }
            let sealed = object.sealed();
            for changed in words.iter().filter(|changed| object.contains(changed.address)) {
                let is_sealed = sealed.contains(&changed.address);
                if mapped.is_writable(changed.address) == Some(!is_sealed) {
                    // SAFETY: the object is loaded and has this word, which was aligned when it was changed.
                    let word = unsafe { objects::word(changed.address) };
                    objects::change(word, changed.ours, changed.old, is_sealed);
                }
            }
            // What lookups have returned meanwhile.
            each_variable(object, mapped, range.clone(), |word, value| {
                if let Ok(at) = copies.binary_search_by_key(&value, |copy| copy.0) {
                    objects::change(word, value, copies[at].1, false);
                }
            });
        });
        self.words.clear();
        self.visited.clear();
    }
}

/// Calls `visit` with each variable whose value lies in a range.
fn each_variable(
    object: Object<'_>,
    mapped: &Mapped,
    values: std::ops::Range<usize>,
    mut visit: impl FnMut(&std::sync::atomic::AtomicUsize, usize),
) {
    if values.is_empty() {
        return;
    }
    for part in object.variables().flat_map(|range| mapped.writable(range)) {
        for address in (part.start.next_multiple_of(8)..part.end & !7).step_by(8) {
            // SAFETY: the address is aligned, and in a mapped part of a loaded object.
            let word = unsafe { objects::word(address) };
            let value = word.load(Ordering::Relaxed);
            if values.contains(&value) {
                visit(word, value);
            }
        }
    }
}

/// What becomes of a word that the loader has set.
enum Change {
    None,
    /// The loader has not set it yet.
    Early,
    /// Its function is not known yet.
    Unknown,
    /// From the old value to ours.
    To(usize, usize),
}

impl Known {
    /// Where the addresses of the driver's functions lie.
    fn range(&self) -> std::ops::Range<usize> {
        let first = self.driver.first().map_or(0, |&(real, _)| real);
        first..self.driver.last().map_or(0, |&(real, _)| real + 1)
    }

    fn change(&self, object: Object<'_>, slot: &Slot<'_>) -> Change {
        let is_dlsym = slot.name == c"dlsym";
        let is_torch = torch::is_wrapped(slot.name);
        if !is_dlsym && !is_torch && !entry_points::is_wrapped(slot.name) {
            return Change::None;
        }
        let value = slot.word.load(Ordering::Acquire);
        // Before it is set, a word is empty or has an offset in its object. That of a function which may be missing can stay empty.
        if value < object.extent().max(1) {
            return if slot.is_weak { Change::None } else { Change::Early };
        }
        if sys::is_own(value) {
            return Change::None;
        }
        // Until the first call, a word may have an address in its own object, which asks the loader.
        let is_late = object.contains(value) && slot.own != Some(value);
        let ours = match () {
            () if is_dlsym => our_dlsym(),
            () if is_torch => torch::before(slot.name, if is_late { 0 } else { value }),
            () if is_late => match self.name(slot.name) {
                0 => return Change::Unknown,
                real => entry_points::before(slot.name, real),
            },
            () => entry_points::before(slot.name, value),
        };
        if ours == value || !sys::is_own(ours) { Change::None } else { Change::To(value, ours) }
    }
}
