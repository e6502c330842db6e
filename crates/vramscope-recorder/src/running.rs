//! Recorded processes while they run, and the memory that they hold now.

use std::fs;

use rustix::process::{Pid, test_kill_process};

/// A process that a running recorder records.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunningProcess {
    /// Id of the process.
    pub process: u32,
    /// The end of the names of its files, such as `-rank3`; empty for the first process.
    pub suffix: String,
    /// The devices that it uses, by number. Empty if the recorder runs in another process.
    pub devices: Vec<RunningDevice>,
    /// Host memory of its libraries, most bytes first. Empty if the recorder runs in another process.
    pub host: Vec<RunningLibrary>,
}

/// What a process holds on one device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunningDevice {
    /// The device's number.
    pub device: i64,
    /// Allocated bytes of PyTorch's allocator.
    pub allocated: u64,
    /// Bytes that PyTorch's allocator reserved.
    pub reserved: u64,
    /// Memory of other libraries, most bytes first.
    pub libraries: Vec<RunningLibrary>,
    /// The driver's last count of the device's memory; `None` if there is none.
    pub count: Option<RunningCount>,
}

/// What a library holds of one kind of memory.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunningLibrary {
    /// File name of the library.
    pub library: String,
    /// The kind of memory, as [`DriverMemory::name`](vramscope_trace::DriverMemory::name) gives it.
    pub memory: &'static str,
    /// Bytes.
    pub bytes: u64,
    /// Number of allocations.
    pub count: u64,
}

/// A count of the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunningCount {
    /// Bytes in use, by all processes.
    pub used: u64,
    /// Bytes that the device has.
    pub total: u64,
    /// Bytes in use at that time that neither PyTorch's allocator nor another library of the process held: contexts, kernels and other
    /// processes. Negative if managed memory was not on the device.
    pub rest: i64,
}

/// Whether a process runs. One that has ended and whose parent has not noticed does not.
pub fn is_running(process: u32) -> bool {
    let pid = i32::try_from(process).ok().and_then(Pid::from_raw);
    let exists = pid.is_some_and(|pid| test_kill_process(pid) != Err(rustix::io::Errno::SRCH));
    let has_ended = status(process).is_some_and(|status| status.starts_with(['Z', 'X']));
    exists && !has_ended
}

/// Whether a process is stopped, as by Ctrl-Z.
#[cfg(target_arch = "x86_64")]
pub(crate) fn is_stopped(process: u32) -> bool {
    status(process).is_some_and(|status| status.starts_with('T'))
}

/// Address of the start of a process's stack, which differs in each program that the process runs; 0 if it is unknown.
pub(crate) fn stack_start(process: u32) -> u64 {
    // The 28th field; the state is the third.
    let field = |status: String| status.split(' ').nth(25)?.parse().ok();
    status(process).and_then(field).unwrap_or(0)
}

/// The number of the effective user of a process.
pub(crate) fn user_of(process: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Uid:"))?.split_whitespace().nth(1)?.parse().ok()
}

/// The state of a process and the fields after it, as Linux shows them.
fn status(process: u32) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name of the program comes before the state, in parentheses.
    Some(status.rsplit_once(')')?.1.trim_start().to_owned())
}
