//! Functions, hooks around their calls, and the memory they use.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod hooks;
mod profile;
mod random;
mod report;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use vramscope_allocator::hooks::function::{CallRecord, CupyMemoryProfileHook, FunctionSummary};
use vramscope_allocator::{MemoryPool, Policy, VirtualDevice};

/// A pool of a device of 1 TiB that takes any size as it is, in steps of 512 bytes.
fn pool() -> MemoryPool {
    pool_of(1 << 40)
}

fn pool_of(capacity: u64) -> MemoryPool {
    MemoryPool::new(&Policy::cupy(), vec![Arc::new(VirtualDevice::with_capacity(capacity))]).unwrap()
}

fn profile() -> Arc<CupyMemoryProfileHook> {
    Arc::new(CupyMemoryProfileHook::new())
}

/// Whether `f` panics. [`panic_quietly`] panics without output on standard error.
fn caught<R>(f: impl FnOnce() -> R) -> bool {
    catch_unwind(AssertUnwindSafe(f)).is_err()
}

fn panic_quietly() {
    resume_unwind(Box::new("on purpose"));
}

/// Function, depth, used and acquired bytes of each call, as in Chainer's history.
fn history(hook: &CupyMemoryProfileHook) -> Vec<(String, usize, u64, u64)> {
    let calls = hook.call_history();
    calls.iter().map(|c| (c.function.to_string(), c.depth, c.used_bytes, c.acquired_bytes)).collect()
}

/// Function, used and acquired bytes and occurrence of each row, as in Chainer's summary.
fn summary(hook: &CupyMemoryProfileHook) -> Vec<(String, u64, u64, u64)> {
    let row = |r: FunctionSummary| (r.function.to_string(), r.used_bytes, r.acquired_bytes, r.occurrence);
    hook.summary().into_iter().map(row).collect()
}

/// The only call.
fn only(hook: &CupyMemoryProfileHook) -> CallRecord {
    let calls = hook.call_history();
    assert_eq!(calls.len(), 1);
    calls[0].clone()
}

fn owned<A: Clone, B: Clone, C: Clone>(rows: &[(&str, A, B, C)]) -> Vec<(String, A, B, C)> {
    rows.iter().cloned().map(|(name, a, b, c)| (name.to_owned(), a, b, c)).collect()
}
