//! Host memory used for stacks: unwind tables are copied to walk stacks, and debug information stays mapped to resolve symbols.

use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};

use vramscope_basics::lock;

/// The growth of this process' resident memory while reading tables, in bytes.
static TAKEN: AtomicI64 = AtomicI64::new(0);

/// Returns the bytes of resident host memory used by unwind tables and debug information that this process has read for stacks. Memory that
/// other threads allocated or freed in the same milliseconds is included. 0 on systems other than Linux.
pub fn symbol_table_bytes() -> u64 {
    TAKEN.load(Ordering::Relaxed).max(0) as u64
}

/// Runs `read`, and counts the memory that it allocates or frees.
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

/// Returns the resident bytes of this process; `None` if the system does not report them.
fn resident() -> Option<u64> {
    if !cfg!(target_os = "linux") {
        return None;
    }
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    kib.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}
