//! The machine as this process sees it: the GPUs, shared by all processes of the run, and this process's slot.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use vramscope_bare::sys;

use crate::state::{Counter, DEVICES, Fact, NAME_BYTES, Noticed, PROCESSES, Purpose, State, WORDS, start_of};
use crate::status::{Answer, Refusal};
use crate::{python, visible};

/// Environment variable with the path of the run's state. The command sets it for its child process, which passes it on.
const STATE: &str = "VRAMSCOPE_PHANTOM_STATE";

/// The GPUs, and this process's part in them.
pub(crate) struct Machine {
    pub(crate) state: State<'static>,
    /// This process's slot among those of the run; [`PROCESSES`] before it takes one.
    place: AtomicUsize,
    /// Whether this process has a context on each device.
    contexts: [AtomicBool; DEVICES],
    /// Bytes of the machine code that this process loaded with the context of each device.
    modules: [AtomicU64; DEVICES],
    /// The process id that was last counted as having a context.
    counted: AtomicU64,
    /// The devices that the program may see, in the order of its ordinals.
    visible: Vec<usize>,
}

static MACHINE: OnceLock<Machine> = OnceLock::new();

/// Returns the bytes of machine code that a context of a device with this compute capability loads at once.
static MODULE_BYTES: OnceLock<fn(u32) -> u64> = OnceLock::new();

/// Sets the function that counts the machine code of a new context. The first call counts.
pub(crate) fn count_modules_with(count: fn(u32) -> u64) {
    // Later calls pass the same function.
    MODULE_BYTES.set(count).ok();
}

/// The machine, opened on the first call.
pub(crate) fn machine() -> &'static Machine {
    MACHINE.get_or_init(|| {
        let state = open_state();
        let listed = std::env::var("CUDA_VISIBLE_DEVICES").ok();
        let is_divided = |device| state.fact(device, Fact::MigInstances).load(Ordering::Relaxed) > 0;
        let visible = visible::devices(state.devices(), listed.as_deref(), is_divided);
        Machine {
            state,
            place: AtomicUsize::new(PROCESSES),
            contexts: [const { AtomicBool::new(false) }; DEVICES],
            modules: [const { AtomicU64::new(0) }; DEVICES],
            counted: AtomicU64::new(0),
            visible,
        }
    })
}

/// Locks a mutex, even after a thread panicked while holding it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes one line to stderr.
pub(crate) fn say(line: &str) {
    // A closed stderr is not an error.
    let _ = writeln!(std::io::stderr(), "vramscope phantom: {line}");
}

impl Machine {
    /// The number of devices that the program may see.
    pub(crate) fn devices(&self) -> usize {
        self.visible.len()
    }

    /// The device with an ordinal of the program.
    pub(crate) fn device(&self, ordinal: i32) -> Result<usize, Refusal> {
        let ordinal = usize::try_from(ordinal).map_err(|_| Refusal::InvalidDevice)?;
        self.visible.get(ordinal).copied().ok_or(Refusal::InvalidDevice)
    }

    /// The program's ordinal of a device, if the program may see it.
    pub(crate) fn ordinal(&self, device: usize) -> Option<i32> {
        self.visible.iter().position(|&visible| visible == device).map(|ordinal| ordinal as i32)
    }

    /// A device by its number in the machine, as NVML counts: NVML shows all devices.
    pub(crate) fn any_device(&self, number: u32) -> Result<usize, Refusal> {
        usize::try_from(number).ok().filter(|&d| d < self.state.devices()).ok_or(Refusal::InvalidDevice)
    }

    /// A fact about an existing device.
    pub(crate) fn fact(&self, device: usize, fact: Fact) -> u64 {
        self.state.fact(device, fact).load(Ordering::Relaxed)
    }

    pub(crate) fn count(&self, counter: Counter) {
        self.state.counter(counter).fetch_add(1, Ordering::Relaxed);
    }

    /// Records a name. On the first record of an unknown or refused call, prints a line.
    pub(crate) fn notice(&self, what: Noticed, name: &str) {
        if self.state.notice(what, name) {
            say(&match what {
                Noticed::Unknown => format!("{name}: unknown call; it returns \"not supported\""),
                Noticed::Refused => {
                    format!("{name}: a phantom GPU does not support this call; it returns \"not supported\"")
                }
                _ => return,
            });
        }
    }

    /// Records a line of the program.
    pub(crate) fn notice_line(&self, what: Noticed, line: &str) {
        self.notice(what, end_of(line));
    }

    /// Creates this process's context on a device, if it has none yet.
    pub(crate) fn need_context(&self, device: usize) -> Answer {
        let is_first = !self.has_any_context();
        if self.contexts[device].swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let taken = self.take(device, Purpose::Context, self.fact(device, Fact::ContextBytes));
        if taken.is_err() {
            self.contexts[device].store(false, Ordering::Release);
            return taken;
        }
        if let Err(refusal) = self.load_modules(device) {
            self.end_context(device);
            return Err(refusal);
        }
        if is_first && self.counted.swap(own_id(), Ordering::AcqRel) != own_id() {
            self.count(Counter::Processes);
        }
        python::settings_without_site().iter().for_each(|setting| self.notice(Noticed::Unrecorded, setting));
        Ok(())
    }

    /// Takes the bytes of the machine code that a new context loads.
    fn load_modules(&self, device: usize) -> Answer {
        let capability = self.fact(device, Fact::ComputeCapability) as u32;
        let bytes = MODULE_BYTES.get().map_or(0, |count| count(capability));
        if bytes > 0 {
            self.take(device, Purpose::Modules, bytes)?;
            self.modules[device].store(bytes, Ordering::Release);
            self.state.fact(device, Fact::ModuleBytes).fetch_max(bytes, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Whether this process has a context on a device.
    pub(crate) fn has_context(&self, device: usize) -> bool {
        self.contexts[device].load(Ordering::Acquire)
    }

    /// Whether this process has a context on any device.
    pub(crate) fn has_any_context(&self) -> bool {
        self.contexts.iter().any(|context| context.load(Ordering::Acquire))
    }

    /// Ends this process's context on a device.
    pub(crate) fn end_context(&self, device: usize) {
        if self.contexts[device].swap(false, Ordering::AcqRel) {
            self.give_back(device, Purpose::Context, self.fact(device, Fact::ContextBytes));
            self.give_back(device, Purpose::Modules, self.modules[device].swap(0, Ordering::AcqRel));
        }
    }

    /// Takes bytes of a device for this process.
    pub(crate) fn take(&self, device: usize, purpose: Purpose, bytes: u64) -> Answer {
        let place = self.place();
        let taken = self.try_take(device, bytes) || (self.bury_the_dead() && self.try_take(device, bytes));
        if !taken {
            self.count(Counter::OutOfMemory);
            return Err(Refusal::OutOfMemory);
        }
        self.state.held(place, device, purpose).fetch_add(bytes, Ordering::Relaxed);
        if purpose == Purpose::Communication {
            let before =
                self.state.fact(device, Fact::CommunicationBytes).fetch_add(bytes, Ordering::Relaxed);
            let peak = self.state.fact(device, Fact::PeakCommunicationBytes);
            peak.fetch_max(before + bytes, Ordering::Relaxed);
        }
        Ok(())
    }

    fn try_take(&self, device: usize, bytes: u64) -> bool {
        let total = self.fact(device, Fact::TotalBytes);
        let used = self.state.fact(device, Fact::UsedBytes);
        let taken = used.try_update(Ordering::AcqRel, Ordering::Relaxed, |used| {
            used.checked_add(bytes).filter(|&used| used <= total)
        });
        if let Ok(before) = taken {
            self.state.fact(device, Fact::PeakBytes).fetch_max(before + bytes, Ordering::Relaxed);
        }
        taken.is_ok()
    }

    /// Returns bytes to a device.
    pub(crate) fn give_back(&self, device: usize, purpose: Purpose, bytes: u64) {
        self.state.held(self.place(), device, purpose).fetch_sub(bytes, Ordering::Relaxed);
        self.give_back_to(device, purpose, bytes);
    }

    fn give_back_to(&self, device: usize, purpose: Purpose, bytes: u64) {
        self.state.fact(device, Fact::UsedBytes).fetch_sub(bytes, Ordering::AcqRel);
        if purpose == Purpose::Communication {
            self.state.fact(device, Fact::CommunicationBytes).fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// This process's slot, taken on first use.
    fn place(&self) -> usize {
        let place = self.place.load(Ordering::Acquire);
        if place < PROCESSES && self.state.process_id(place).load(Ordering::Relaxed) == own_id() {
            return place;
        }
        static TAKING: Mutex<()> = Mutex::new(());
        let _taking = lock(&TAKING);
        let id = own_id();
        let free = |place: &usize| {
            self.state.process_id(*place).compare_exchange(0, id, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        let taken = (0..PROCESSES).find(free).or_else(|| {
            self.bury_the_dead();
            (0..PROCESSES).find(free)
        });
        // If there are more processes than slots, the surplus processes share the last slot: their bytes count, but cannot be
        // told apart.
        let place = taken.unwrap_or(PROCESSES - 1);
        self.state.process_start(place).store(start_of(id).unwrap_or(0), Ordering::Release);
        self.place.store(place, Ordering::Release);
        place
    }

    /// Frees the bytes of processes that no longer run. True if there were any.
    pub(crate) fn bury_the_dead(&self) -> bool {
        let mut any = false;
        for place in 0..PROCESSES {
            let Some((id, false)) = self.state.process(place) else { continue };
            if id != own_id() && self.empty_place(place, id) {
                self.count(Counter::Killed);
                any = true;
            }
        }
        any
    }

    /// Frees the bytes of a slot's process.
    fn empty_place(&self, place: usize, id: u64) -> bool {
        // Only one process may do this at a time.
        const EMPTYING: u64 = u64::MAX;
        let slot = self.state.process_id(place);
        if slot.compare_exchange(id, EMPTYING, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return false;
        }
        let mut any = false;
        for device in 0..self.state.devices() {
            for purpose in Purpose::ALL {
                let bytes = self.state.held(place, device, purpose).swap(0, Ordering::AcqRel);
                self.give_back_to(device, purpose, bytes);
                any |= bytes > 0;
            }
        }
        self.state.process_start(place).store(0, Ordering::Relaxed);
        slot.store(0, Ordering::Release);
        any
    }

    /// The processes with memory on a device, and their bytes.
    pub(crate) fn processes_on(&self, device: usize) -> Vec<(u32, u64)> {
        self.bury_the_dead();
        let held = |place: usize| {
            let id = self.state.process_id(place).load(Ordering::Acquire);
            let bytes: u64 =
                Purpose::ALL.iter().map(|&p| self.state.held(place, device, p).load(Ordering::Relaxed)).sum();
            u32::try_from(id).ok().filter(|&id| id != 0 && bytes > 0).map(|id| (id, bytes))
        };
        let mut sums: HashMap<u32, u64> = HashMap::new();
        (0..PROCESSES).filter_map(held).for_each(|(id, bytes)| *sums.entry(id).or_default() += bytes);
        let mut sums: Vec<_> = sums.into_iter().collect();
        sums.sort_unstable();
        sums
    }
}

/// The end of a line's name that fits [`NAME_BYTES`], cut at a folder.
fn end_of(line: &str) -> &str {
    if line.len() <= NAME_BYTES {
        return line;
    }
    let end = line.len() - NAME_BYTES;
    let tail = line.get(line.ceil_char_boundary(end)..).unwrap_or_default();
    tail.split_once('/').map_or(tail, |(_, rest)| rest)
}

/// Releases this process's slot at exit.
extern "C" fn leave() {
    let Some(machine) = MACHINE.get() else { return };
    let place = machine.place.load(Ordering::Acquire);
    if place < PROCESSES {
        machine.empty_place(place, own_id());
    }
}

#[used]
#[unsafe(link_section = ".fini_array")]
static LEAVE: extern "C" fn() = leave;

fn own_id() -> u64 {
    u64::from(std::process::id())
}

/// Whether a process still runs.
pub(crate) fn is_running(id: u64) -> bool {
    start_of(id).is_some()
}

/// The path of the run's state file, which lies in the run's folder.
pub(crate) fn state_path() -> Option<OsString> {
    std::env::var_os(STATE)
}

/// Opens the run's state. Without a run, the machine has no GPUs.
fn open_state() -> State<'static> {
    let Some(path) = state_path() else {
        say("there are no GPUs: start the program with `vramscope phantom run`");
        return State::begin(own_words(), 0, None);
    };
    map(&path).unwrap_or_else(|| {
        say(&format!("{}: not the state of a phantom run; there are no GPUs", path.display()));
        State::begin(own_words(), 0, None)
    })
}

fn own_words() -> &'static [AtomicU64] {
    Vec::leak((0..WORDS).map(|_| AtomicU64::new(0)).collect())
}

/// Options to open a file in the run's folder: they do not follow links, and create files that only this user can access.
pub(crate) fn no_follow() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600).custom_flags(sys::O_NOFOLLOW);
    options
}

/// The state in a file, shared by all processes that map it.
fn map(path: &OsStr) -> Option<State<'static>> {
    let file = no_follow().read(true).write(true).open(path).ok()?;
    State::new(map_words(&file, WORDS)?)
}

/// Maps a file of exactly `words` words, shared by all processes that map it. `None` for any other size.
pub(crate) fn map_words(file: &File, words: usize) -> Option<&'static [AtomicU64]> {
    let length = words * size_of::<u64>();
    if file.metadata().ok()?.len() != length as u64 {
        return None;
    }
    // SAFETY: a new mapping of a file with this length.
    let at = unsafe {
        sys::mmap(
            std::ptr::null_mut(),
            length,
            sys::PROT_READ | sys::PROT_WRITE,
            sys::MAP_SHARED,
            file.as_raw_fd(),
            0,
        )
    };
    if at.addr() == usize::MAX {
        return None;
    }
    // SAFETY: the mapping has this length, is page-aligned, never unmapped, and only ever accessed atomically.
    Some(unsafe { std::slice::from_raw_parts(at.cast::<AtomicU64>(), words) })
}
