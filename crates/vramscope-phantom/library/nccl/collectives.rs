//! The operations of communicators: which bytes each rank sends, and the address at which the result arrives.

use std::ffi::c_int;
use std::sync::Arc;

use super::barriers::remember;
use super::buffers::Use;
use super::groups::{self, Broadcast};
use super::messages::Mailbox;
use super::reduction::{Operation, reduce, size_of_type};
use super::{connected, mailbox};
use crate::machine::machine;
use crate::memory::accesses::record_words;
use crate::memory::copies::{Later, expect, forget, known};
use crate::state::Counter;
use crate::status::{Answer, Refusal};

/// Larger numeric data is model data, whose values the phantom does not know. Byte data is pickled objects of any size.
const MOST_NUMBERS: u64 = 1 << 20;

/// Larger reductions are of gradients, which the phantom does not compute.
const MOST_REDUCED: u64 = 4 << 10;

/// An operation under way.
struct Call {
    mailbox: Arc<Mailbox>,
    /// Bytes of `count` elements.
    size: u64,
    /// Whether the bytes are transferred. All ranks compute the same result.
    travels: bool,
}

impl Call {
    fn new(communicator: usize, count: usize, kind: c_int) -> Result<Self, Refusal> {
        Self::that_needs(Use::Collective, communicator, count, kind)
    }

    fn that_needs(what: Use, communicator: usize, count: usize, kind: c_int) -> Result<Self, Refusal> {
        let element = size_of_type(kind).ok_or(Refusal::InvalidValue)?;
        let size = element.checked_mul(count as u64).ok_or(Refusal::InvalidValue)?;
        machine().count(Counter::Collectives);
        let mailbox = connected(communicator, what)?;
        Ok(Self { mailbox, size, travels: size > 0 && (kind <= 1 || size <= MOST_NUMBERS) })
    }

    fn rank(&self, rank: c_int) -> Result<usize, Refusal> {
        Some(number(rank)?).filter(|&rank| rank < self.mailbox.ranks).ok_or(Refusal::InvalidValue)
    }

    /// Starts an operation of all ranks and posts the known part of `size` bytes at `send`. Returns the operation's number and
    /// the posted bytes.
    fn say(&self, send: Option<u64>, size: u64) -> (u64, Option<Vec<u8>>) {
        let own = send.filter(|_| self.travels).and_then(|send| known(send, size));
        let number = self.mailbox.next();
        self.mailbox.post(number, own.as_deref());
        (number, own)
    }

    /// The message of `rank` in an operation, from offset `at`, as long as this call's data. Pretended ranks repeat this rank's
    /// message.
    fn later(&self, rank: usize, (number, own): &(u64, Option<Vec<u8>>), at: u64) -> Later {
        let part = {
            let size = self.size;
            move |all: Vec<u8>| all.get(at as usize..(at + size) as usize).map(<[u8]>::to_vec)
        };
        if self.mailbox.is_pretended() {
            let own = own.clone();
            return Arc::new(move || own.clone().and_then(part));
        }
        let (mailbox, number) = (Arc::clone(&self.mailbox), *number);
        Arc::new(move || mailbox.read(rank, number).and_then(part))
    }

    /// Expects the parts of all ranks at `receive`, one after the other.
    fn expect_all(&self, receive: u64, said: &(u64, Option<Vec<u8>>), at: u64) {
        let ranks = self.mailbox.ranks;
        if !self.travels {
            return forget(receive, self.size * ranks as u64);
        }
        for rank in 0..ranks {
            expect(receive + rank as u64 * self.size, self.size, self.later(rank, said, at));
        }
    }

    /// Expects the part of one rank at `receive`.
    fn expect_one(&self, receive: u64, rank: usize, said: &(u64, Option<Vec<u8>>), at: u64) {
        if self.travels {
            expect(receive, self.size, self.later(rank, said, at));
        } else {
            forget(receive, self.size);
        }
    }
}

fn number(rank: c_int) -> Result<usize, Refusal> {
    usize::try_from(rank).map_err(|_| Refusal::InvalidValue)
}

pub(crate) fn all_gather(
    send: u64,
    receive: u64,
    count: usize,
    kind: c_int,
    communicator: usize,
    stream: usize,
) -> Answer {
    let call = Call::new(communicator, count, kind)?;
    record_words(stream, &[send, receive]);
    let said = call.say(Some(send), call.size);
    call.expect_all(receive, &said, 0);
    Ok(())
}

pub(crate) fn broadcast(
    send: u64,
    receive: u64,
    count: usize,
    kind: c_int,
    root: c_int,
    communicator: usize,
    stream: usize,
) -> Answer {
    let call = Call::new(communicator, count, kind)?;
    let root = call.rank(root)?;
    let is_own = root == call.mailbox.rank;
    // A pretended root sends this rank's data.
    let says = is_own || call.mailbox.is_pretended();
    record_words(stream, &[if is_own { send } else { receive }, receive]);
    let said = call.say(Some(send).filter(|_| says), call.size);
    if !(says && send == receive) {
        call.expect_one(receive, root, &said, 0);
    }
    if call.mailbox.is_pretended() {
        groups::note(Broadcast { communicator, receive, size: call.size, own: said.1, is_own });
    }
    Ok(())
}

pub(crate) fn broadcast_in_place(
    buffer: u64,
    count: usize,
    kind: c_int,
    root: c_int,
    communicator: usize,
    stream: usize,
) -> Answer {
    broadcast(buffer, buffer, count, kind, root, communicator, stream)
}

pub(crate) fn all_reduce(
    send: u64,
    receive: u64,
    count: usize,
    kind: c_int,
    operation: c_int,
    communicator: usize,
    stream: usize,
) -> Answer {
    reduce_to(Some(receive), send, count, kind, operation, communicator, stream)
}

#[allow(clippy::too_many_arguments, reason = "ncclReduce's signature")]
pub(crate) fn reduce_to_root(
    send: u64,
    receive: u64,
    count: usize,
    kind: c_int,
    operation: c_int,
    root: c_int,
    communicator: usize,
    stream: usize,
) -> Answer {
    let is_root = usize::try_from(root).ok() == Some(mailbox(communicator)?.rank);
    reduce_to(Some(receive).filter(|_| is_root), send, count, kind, operation, communicator, stream)
}

/// Reduces over all ranks. The result arrives at `receive`, if this rank wants it.
fn reduce_to(
    receive: Option<u64>,
    send: u64,
    count: usize,
    kind: c_int,
    operation: c_int,
    communicator: usize,
    stream: usize,
) -> Answer {
    let mut call = Call::new(communicator, count, kind)?;
    record_words(stream, &[send, receive.unwrap_or(send)]);
    let operation = Operation::of(operation).filter(|_| call.size <= MOST_REDUCED);
    call.travels &= operation.is_some();
    let said = call.say(Some(send), call.size);
    if count == 1 {
        remember(&call.mailbox, said.0, stream);
    }
    let Some(receive) = receive else { return Ok(()) };
    let Some(operation) = operation.filter(|_| call.travels) else {
        forget(receive, call.size);
        return Ok(());
    };
    let parts: Vec<Later> = (0..call.mailbox.ranks).map(|rank| call.later(rank, &said, 0)).collect();
    let all = move || parts.iter().map(|part| part()).collect::<Option<Vec<_>>>();
    expect(receive, call.size, Arc::new(move || reduce(kind, operation, &all()?)));
    Ok(())
}

/// Reduces gradients in practice, so no values are transferred.
pub(crate) fn reduce_scatter(
    send: u64,
    receive: u64,
    count: usize,
    kind: c_int,
    _operation: c_int,
    communicator: usize,
    stream: usize,
) -> Answer {
    let call = Call::new(communicator, count, kind)?;
    record_words(stream, &[send, receive]);
    call.say(None, 0);
    forget(receive, call.size);
    Ok(())
}

pub(crate) fn all_to_all(
    send: u64,
    receive: u64,
    count: usize,
    kind: c_int,
    communicator: usize,
    stream: usize,
) -> Answer {
    let call = Call::new(communicator, count, kind)?;
    record_words(stream, &[send, receive]);
    let said = call.say(Some(send), call.size * call.mailbox.ranks as u64);
    call.expect_all(receive, &said, call.size * call.mailbox.rank as u64);
    Ok(())
}

pub(crate) fn gather(
    send: u64,
    receive: u64,
    count: usize,
    kind: c_int,
    root: c_int,
    communicator: usize,
    stream: usize,
) -> Answer {
    let call = Call::new(communicator, count, kind)?;
    let said = call.say(Some(send), call.size);
    let is_root = call.rank(root)? == call.mailbox.rank;
    record_words(stream, &[send, if is_root { receive } else { send }]);
    if is_root {
        call.expect_all(receive, &said, 0);
    }
    Ok(())
}

pub(crate) fn scatter(
    send: u64,
    receive: u64,
    count: usize,
    kind: c_int,
    root: c_int,
    communicator: usize,
    stream: usize,
) -> Answer {
    let call = Call::new(communicator, count, kind)?;
    let root = call.rank(root)?;
    let all = call.size * call.mailbox.ranks as u64;
    let is_root = root == call.mailbox.rank;
    record_words(stream, &[if is_root { send } else { receive }, receive]);
    let said = call.say(Some(send).filter(|_| is_root), all);
    call.expect_one(receive, root, &said, call.size * call.mailbox.rank as u64);
    Ok(())
}

pub(crate) fn send(
    send: u64,
    count: usize,
    kind: c_int,
    peer: c_int,
    communicator: usize,
    stream: usize,
) -> Answer {
    let call = Call::that_needs(Use::SendTo(number(peer)?), communicator, count, kind)?;
    record_words(stream, &[send]);
    let own = if call.travels { known(send, call.size) } else { None };
    call.mailbox.send(call.rank(peer)?, own.as_deref());
    Ok(())
}

/// Messages from pretended ranks are unknown.
pub(crate) fn receive(
    receive: u64,
    count: usize,
    kind: c_int,
    peer: c_int,
    communicator: usize,
    stream: usize,
) -> Answer {
    let call = Call::that_needs(Use::ReceiveFrom(number(peer)?), communicator, count, kind)?;
    record_words(stream, &[receive]);
    let peer = call.rank(peer)?;
    let number = call.mailbox.next_from(peer);
    if call.travels {
        let (mailbox, size) = (call.mailbox, call.size as usize);
        let whole = move || mailbox.receive(peer, number).filter(|message| message.len() == size);
        expect(receive, call.size, Arc::new(whole));
    } else {
        forget(receive, call.size);
    }
    Ok(())
}

/// One-sided operations: data that ranks write into each other's memory does not come from the host.
pub(crate) fn signal() -> Answer {
    machine().count(Counter::Collectives);
    Ok(())
}
