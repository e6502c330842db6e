//! NCCL: communicators, and the effect of their operations on a rank's memory.
//!
//! Operations return at once and compute nothing. But messages between programs must arrive: numbers of parameters, shapes,
//! pickled objects. So bytes that came from the host are transferred (`messages.rs`) as each operation demands
//! (`collectives.rs`). Results of kernels read as zeros, as everywhere.

mod barriers;
mod buffers;
pub(crate) mod collectives;
pub(crate) mod groups;
mod messages;
mod reduction;

use std::ffi::c_int;
use std::sync::Arc;

pub(crate) use barriers::{Barrier, barrier_before_event, wait_for_barriers};

use crate::handles::{Objects, new_handle};
use crate::machine::machine;
use crate::out::Out;
use crate::status::{Answer, Refusal};
use crate::threads::use_current_device;
use buffers::{Buffers, Use};
use messages::Mailbox;

/// `ncclUniqueId`, passed by value.
#[repr(C)]
pub(crate) struct UniqueId([u8; 128]);

struct Communicator {
    device: usize,
    buffers: Buffers,
    mailbox: Arc<Mailbox>,
}

static COMMUNICATORS: Objects<Communicator> = Objects::new();

pub(crate) fn version(version: Out<c_int>) -> Answer {
    version.set(crate::version::nccl())
}

/// An id that is unique among the communicators of the run.
pub(crate) fn unique_id(id: Out<[u8; 128]>) -> Answer {
    let mut bytes = [0; 128];
    bytes[..8].copy_from_slice(&(new_handle() as u64).to_le_bytes());
    bytes[8..12].copy_from_slice(&std::process::id().to_le_bytes());
    id.set(bytes)
}

fn new_communicator(out: Out<usize>, name: String, ranks: usize, rank: usize) -> Answer {
    let device = use_current_device()?;
    let buffers = Buffers::new(device, ranks, rank)?;
    let mailbox = Arc::new(Mailbox::new(name, ranks, rank));
    out.set(COMMUNICATORS.add(Communicator { device, buffers, mailbox }))
}

pub(crate) fn init(communicator: Out<usize>, ranks: c_int, id: UniqueId, rank: c_int) -> Answer {
    let (Ok(ranks), Ok(rank)) = (usize::try_from(ranks), usize::try_from(rank)) else {
        return Err(Refusal::InvalidValue);
    };
    if rank >= ranks {
        return Err(Refusal::InvalidValue);
    }
    let name = id.0[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    new_communicator(communicator, name, ranks, rank)
}

pub(crate) fn init_with(
    communicator: Out<usize>,
    ranks: c_int,
    id: UniqueId,
    rank: c_int,
    _configuration: usize,
) -> Answer {
    init(communicator, ranks, id, rank)
}

/// Several ids speed up the setup of a large communicator. The first one names it.
pub(crate) fn init_scalable(
    communicator: Out<usize>,
    ranks: c_int,
    rank: c_int,
    _count: c_int,
    ids: *const UniqueId,
    _configuration: usize,
) -> Answer {
    if ids.is_null() {
        return Err(Refusal::InvalidValue);
    }
    // SAFETY: the caller passes at least one id.
    init(communicator, ranks, unsafe { ids.read_unaligned() }, rank)
}

/// Splits a communicator: ranks with the same color form a part, in the order of their keys.
pub(crate) fn split(
    communicator: usize,
    color: c_int,
    key: c_int,
    new: Out<usize>,
    _configuration: usize,
) -> Answer {
    /// `NCCL_SPLIT_NOCOLOR`: this rank joins no part.
    const NONE: c_int = -1;
    let whole = mailbox(communicator)?;
    let own = [color.to_le_bytes(), key.to_le_bytes()].concat();
    let (number, all) = whole.tell_all(&own);
    if color == NONE {
        return new.set(0);
    }
    let int = |bytes: &[u8]| bytes.first_chunk().map(|four| c_int::from_le_bytes(*four));
    let mut members: Vec<(c_int, usize)> = (all.iter().enumerate())
        .filter(|(_, said)| int(said) == Some(color))
        .map(|(rank, said)| (int(&said[4..]).unwrap_or(0), rank))
        .collect();
    members.sort_unstable();
    let rank = members.iter().position(|&(_, rank)| rank == whole.rank).unwrap_or(0);
    new_communicator(new, format!("{}.{number}.{color}", whole.name), members.len(), rank)
}

pub(crate) fn destroy(communicator: usize) -> Answer {
    COMMUNICATORS.remove(communicator)?.buffers.give_back();
    Ok(())
}

fn mailbox(communicator: usize) -> Result<Arc<Mailbox>, Refusal> {
    COMMUNICATORS.with(communicator, |c| Arc::clone(&c.mailbox))
}

/// The mailbox, after making the connections for a purpose.
fn connected(communicator: usize, what: Use) -> Result<Arc<Mailbox>, Refusal> {
    COMMUNICATORS.with(communicator, |c| c.buffers.connect(what))??;
    mailbox(communicator)
}

pub(crate) fn count(communicator: usize, count: Out<c_int>) -> Answer {
    count.set(mailbox(communicator)?.ranks as c_int)
}

pub(crate) fn rank(communicator: usize, rank: Out<c_int>) -> Answer {
    rank.set(mailbox(communicator)?.rank as c_int)
}

pub(crate) fn device(communicator: usize, device: Out<c_int>) -> Answer {
    let physical = COMMUNICATORS.with(communicator, |c| c.device)?;
    device.set(machine().ordinal(physical).ok_or(Refusal::InvalidDevice)?)
}
