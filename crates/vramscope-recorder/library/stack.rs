//! The stack of the calling thread.
//!
//! A stack is a list of sites: positions in Python code. Its id is a hash of its sites. The ring gets the sites of a stack once, and later
//! only its id; likewise the names of a site.

use crate::captured::{Captured, mixed};
use crate::process::Inside;
use crate::python;
use crate::record::STACK;
use crate::written::Written;

static STACKS: Written<{ 1 << 16 }> = Written::new();

/// Captures the stack of this thread, and returns its id; 0 if it has no frames.
pub(crate) fn capture(inside: &Inside) -> u64 {
    let mut stack = Captured::new();
    python::capture(inside, &mut stack);
    let sites = stack.sites();
    if sites.is_empty() {
        return 0;
    }
    let id = sites.iter().fold(sites.len() as u64, |hash, &site| mixed(hash, site)).max(1);
    if !STACKS.has(id) && inside.write(STACK, stack.with_id(id)) {
        STACKS.add(id);
    }
    id
}
