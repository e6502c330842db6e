//! cuDNN. The program's own library answers about graphs of operations (`own`, `backend`). The functions with a handle need a GPU: their
//! descriptors return the values that were set, and their sizes are models (`algorithms`, `rnn`).

pub(crate) mod algorithms;
pub(crate) mod backend;
pub(crate) mod descriptors;
mod own;
pub(crate) mod rnn;

use std::ffi::c_int;

use crate::machine::machine;
use crate::out::Out;
use crate::state::Fact;
use crate::status::{Answer, Refusal};
use crate::threads::current_device;
use crate::version;

/// The major, minor and patch number.
pub(crate) fn property(which: c_int, value: Out<c_int>) -> Answer {
    let version = version::cudnn() as c_int;
    match which {
        0 => value.set(version / 10_000),
        1 => value.set(version / 100 % 100),
        2 => value.set(version % 100),
        _ => Err(Refusal::InvalidValue),
    }
}

/// Reports the default stream: the phantom treats all streams alike.
pub(crate) fn stream(_handle: usize, stream: Out<usize>) -> Answer {
    stream.set(0)
}

pub(crate) fn last_error(message: Out<u8>, length: usize) {
    let own = own::cudnn().map_or_else(|_| String::new(), own::Own::last_error);
    let text = if own.is_empty() { "refused by the phantom GPU" } else { &own };
    // A caller without a buffer gets no message.
    let _ = message.set_text(text, length);
}

/// Bytes for random number states: 48 for each thread that the device can hold.
pub(crate) fn dropout_states(_handle: usize, size: Out<usize>) -> Answer {
    let device = current_device()?;
    let threads = machine().fact(device, Fact::Multiprocessors)
        * machine().fact(device, Fact::ThreadsPerMultiprocessor);
    size.set(48 * threads as usize)
}
