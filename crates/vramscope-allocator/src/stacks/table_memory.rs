//! How much host memory stacks take: unwind tables are copied to walk them, and debug information is mapped and kept to look up
//! their symbols.

use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};

use vramscope_basics::lock;

/// By how many bytes the resident memory of this process grew meanwhile.
static TAKEN: AtomicI64 = AtomicI64::new(0);

/// Bytes of resident host memory that the unwind tables and the debug information of this process have taken so far, which were read
/// for stacks. Memory that other threads took or gave back in the same milliseconds is counted with it. 0 on systems other than
/// Linux.
pub fn symbol_table_bytes() -> u64 {
    TAKEN.load(Ordering::Relaxed).max(0) as u64
}

/// Runs `read`, and counts the memory that it takes or gives back.
pub(super) fn counted<T>(read: impl FnOnce() -> T) -> T {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _only = lock(&ONE_AT_A_TIME);
    let before = resident();
    let found = read();
    if let (Some(before), Some(after)) = (before, resident()) {
        TAKEN.fetch_add(after as i64 - before as i64, Ordering::Relaxed);
    }
    found
}

/// The resident bytes of this process; `None` where the system does not say.
fn resident() -> Option<u64> {
    if !cfg!(target_os = "linux") {
        return None;
    }
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    kib.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}
