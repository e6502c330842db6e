//! Groups of operations. PyTorch 2.15 gathers with a group of broadcasts, one from each rank. In it, pretended ranks broadcast
//! this rank's data.

use std::cell::RefCell;
use std::sync::Arc;

use crate::memory::copies::expect;
use crate::status::Answer;

/// A broadcast of a group.
pub(super) struct Broadcast {
    pub(super) communicator: usize,
    pub(super) receive: u64,
    pub(super) size: u64,
    /// Its known bytes, if this rank is the root.
    pub(super) own: Option<Vec<u8>>,
    pub(super) is_own: bool,
}

#[derive(Default)]
struct Group {
    depth: u32,
    broadcasts: Vec<Broadcast>,
}

thread_local! {
    static GROUP: RefCell<Group> = RefCell::default();
}

pub(crate) fn start() -> Answer {
    GROUP.with_borrow_mut(|group| group.depth += 1);
    Ok(())
}

/// Records a broadcast in a world with pretended ranks.
pub(super) fn note(broadcast: Broadcast) {
    GROUP.with_borrow_mut(|group| {
        if group.depth > 0 {
            group.broadcasts.push(broadcast);
        }
    });
}

pub(crate) fn end() -> Answer {
    let ended = GROUP.with_borrow_mut(|group| {
        group.depth = group.depth.saturating_sub(1);
        if group.depth == 0 { std::mem::take(&mut group.broadcasts) } else { Vec::new() }
    });
    for theirs in ended.iter().filter(|broadcast| !broadcast.is_own) {
        let is_alike = |own: &&Broadcast| {
            own.is_own && (own.communicator, own.size) == (theirs.communicator, theirs.size)
        };
        if let Some(own) = ended.iter().find(is_alike) {
            let said = own.own.clone();
            expect(theirs.receive, theirs.size, Arc::new(move || said.clone()));
        }
    }
    Ok(())
}
