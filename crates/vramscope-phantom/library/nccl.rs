//! Communicators of NCCL.

use std::ffi::c_int;

use crate::handles::{Objects, new_handle};
use crate::machine::machine;
use crate::out::Out;
use crate::state::Counter;
use crate::status::Answer;
use crate::threads::use_current_device;

/// `ncclUniqueId`, which is handed in by value.
#[repr(C)]
pub(crate) struct UniqueId([u8; 128]);

struct Communicator {
    ranks: c_int,
    rank: c_int,
    device: usize,
}

static COMMUNICATORS: Objects<Communicator> = Objects::new();

pub(crate) fn version(version: Out<c_int>) -> Answer {
    version.set(crate::version::nccl())
}

pub(crate) fn unique_id(id: Out<[u8; 128]>) -> Answer {
    let mut bytes = [0; 128];
    bytes[..8].copy_from_slice(&(new_handle() as u64).to_le_bytes());
    bytes[8..12].copy_from_slice(&std::process::id().to_le_bytes());
    id.set(bytes)
}

fn new_communicator(out: Out<usize>, ranks: c_int, rank: c_int) -> Answer {
    let device = use_current_device()?;
    out.set(COMMUNICATORS.add(Communicator { ranks, rank, device }))
}

pub(crate) fn init(communicator: Out<usize>, ranks: c_int, _id: UniqueId, rank: c_int) -> Answer {
    new_communicator(communicator, ranks, rank)
}

pub(crate) fn init_with(
    communicator: Out<usize>,
    ranks: c_int,
    _id: UniqueId,
    rank: c_int,
    _configuration: usize,
) -> Answer {
    new_communicator(communicator, ranks, rank)
}

pub(crate) fn init_scalable(communicator: Out<usize>, ranks: c_int, rank: c_int, _ids: c_int) -> Answer {
    new_communicator(communicator, ranks, rank)
}

/// A part of a communicator. Who else is in it is not known here: it has as many ranks as the whole.
pub(crate) fn split(communicator: usize, color: c_int, _key: c_int, new: Out<usize>) -> Answer {
    /// `NCCL_SPLIT_NOCOLOR`: this rank is in no part.
    const NONE: c_int = -1;
    let (ranks, rank) = COMMUNICATORS.with(communicator, |c| (c.ranks, c.rank))?;
    if color == NONE { new.set(0) } else { new_communicator(new, ranks, rank) }
}

pub(crate) fn destroy(communicator: usize) -> Answer {
    COMMUNICATORS.remove(communicator).map(drop)
}

pub(crate) fn count(communicator: usize, count: Out<c_int>) -> Answer {
    count.set(COMMUNICATORS.with(communicator, |c| c.ranks)?)
}

pub(crate) fn rank(communicator: usize, rank: Out<c_int>) -> Answer {
    rank.set(COMMUNICATORS.with(communicator, |c| c.rank)?)
}

pub(crate) fn device(communicator: usize, device: Out<c_int>) -> Answer {
    device.set(COMMUNICATORS.with(communicator, |c| c.device)? as c_int)
}

pub(crate) fn collective() -> Answer {
    machine().count(Counter::Collectives);
    Ok(())
}
