//! Accesses of device memory. A phantom GPU sees them and calls this library.

use std::sync::OnceLock;

use crate::process::Inside;
use crate::record::{ACCESS, access};

/// Most words of a record, with its flags. Few launches have more addresses.
const LENGTH: usize = 64;

/// The environment variable that turns accesses on, if it is 1.
const ACCESSES: &str = "VRAMSCOPE_RECORDER_ACCESSES";

/// Returns the function that takes accesses; `None` if they are not recorded.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn vramscope_recorder_accesses() -> Option<extern "C" fn(u64, *const u64, usize)> {
    static ARE_RECORDED: OnceLock<bool> = OnceLock::new();
    let are_recorded =
        *ARE_RECORDED.get_or_init(|| std::env::var_os(ACCESSES).is_some_and(|value| value == "1"));
    are_recorded.then_some(take)
}

/// Takes the addresses of one launch. A launch with many addresses has several records.
extern "C" fn take(flags: u64, addresses: *const u64, count: usize) {
    let Some(inside) = Inside::enter() else { return };
    let addresses = match count {
        0 => &[],
        // SAFETY: the phantom passes this many addresses.
        _ => unsafe { std::slice::from_raw_parts(addresses, count) },
    };
    let mut body = [0; LENGTH];
    let (first, rest) = addresses.split_at(count.min(body.len() - 1));
    let mut write = |flags, addresses: &[u64]| {
        body[0] = flags;
        body[1..=addresses.len()].copy_from_slice(addresses);
        inside.write(ACCESS, &body[..=addresses.len()])
    };
    write(flags, first);
    for more in rest.chunks(LENGTH - 1) {
        write(flags | access::CONTINUED, more);
    }
}
