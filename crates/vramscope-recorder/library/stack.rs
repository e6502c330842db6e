//! The stack of the calling thread.
//!
//! A stack is a list of sites: positions in Python code, then return addresses of native code. Its id is a hash of its sites. The ring gets
//! the sites of a stack once, and later only its id; likewise the names of a site.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use crate::captured::{Captured, mixed};
#[cfg(target_arch = "x86_64")]
use crate::native;
use crate::process::Inside;
use crate::python;
use crate::record::STACK;
use crate::written::Written;

static STACKS: Written<{ 1 << 16 }> = Written::new();

/// Which frames stacks have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Stacks {
    None = 1,
    Python,
    /// Python frames, then native ones.
    All,
}

/// The environment variable that says which frames stacks have: `none`, `python`, `all`, or `large:` and the bytes of the smallest request
/// with a stack, which then has Python frames.
const STACKS_OPTION: &str = "VRAMSCOPE_RECORDER_STACKS";

static ASKED: AtomicU8 = AtomicU8::new(0);
/// Bytes of the smallest request with a stack.
static LEAST: AtomicU64 = AtomicU64::new(0);

/// The size of a request whose size is unknown, or that has a stack in any case.
pub(crate) const ANY_SIZE: u64 = u64::MAX;

/// Which frames stacks have from now on: a value of [`STACKS_OPTION`].
pub(crate) fn set(option: &str) {
    let large = option.strip_prefix("large:").and_then(|bytes| bytes.parse().ok());
    LEAST.store(large.unwrap_or(0), Ordering::Relaxed);
    ASKED.store(Stacks::of(option) as u8, Ordering::Relaxed);
}

impl Stacks {
    fn of(option: &str) -> Self {
        match option {
            "none" => Self::None,
            "all" => Self::All,
            _ => Self::Python,
        }
    }
}

fn stacks() -> Stacks {
    match ASKED.load(Ordering::Relaxed) {
        1 => Stacks::None,
        2 => Stacks::Python,
        3 => Stacks::All,
        _ => {
            let option = std::env::var(STACKS_OPTION).unwrap_or_default();
            set(&option);
            Stacks::of(&option)
        }
    }
}

/// Captures the stack of this thread for a request of `size` bytes, and returns its id; 0 if it has no frames.
pub(crate) fn capture(inside: &Inside, size: u64) -> u64 {
    let stacks = stacks();
    if size < LEAST.load(Ordering::Relaxed) {
        return 0;
    }
    let mut stack = Captured::new();
    match stacks {
        Stacks::None => return 0,
        Stacks::Python => python::capture(&mut stack),
        Stacks::All => {
            python::capture(&mut stack);
            #[cfg(target_arch = "x86_64")]
            native::capture(inside, &mut stack);
        }
    }
    let sites = stack.sites();
    if sites.is_empty() {
        return 0;
    }
    let id = sites.iter().fold(sites.len() as u64, |hash, &site| mixed(hash, site)).max(1);
    if !STACKS.has(id) {
        write_stack(inside, &mut stack, id);
    }
    id
}

/// Writes a stack after the names of its sites, so that who knows a stack need not look at its sites.
#[cold]
#[inline(never)]
fn write_stack(inside: &Inside, stack: &mut Captured, id: u64) {
    python::name_sites(inside);
    if inside.write(STACK, stack.with_id(id)) {
        STACKS.add(id);
    }
}
