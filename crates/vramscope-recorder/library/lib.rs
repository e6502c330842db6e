//! The recorder's part in the recorded process: a shared library that sees each allocation, and writes it to a ring.
//!
//! A program preloads it (`LD_PRELOAD`). Its functions have the names of functions of PyTorch, of CUDA's runtime and of the driver, so that
//! the program calls them instead. Each calls the function that it stands for, and writes a record of what that did. A program that already
//! runs loads it later, and `attach.rs` writes the addresses of these functions where the loaded objects have those of the real ones.
//!
//! ```text
//!   attach.rs      changes the loaded objects of a program that already runs (mapped.rs)
//!   torch.rs       PyTorch's reports of allocations and frees         program
//!   runtime.rs     CUDA's runtime, where it is a shared library         |   calls
//!   driver.rs      the driver; `entry_points.rs` gives its functions    v
//!                  to programs that look them up by name              these functions  --->  the real ones
//!        |                                                              |   records
//!        v                                                              v
//!   stack.rs, python/, native/    the calling thread's stack           ring.rs: a mapped file  --->  the reader, another process
//! ```
//!
//! The Python package calls `notes.rs`, where it is asked to record categories, modules and regions.
//! A phantom GPU passes the accesses of kernels, libraries and copies to `accesses.rs`.
//!
//! After calls that change the memory of a device, `reading.rs` records how much of it the driver counts as in use. `graphs.rs` does so for
//! the memory of CUDA graphs, and `contexts.rs` notices the end of a device's contexts. `facts.rs` records what only the process knows about
//! its recording.
//!
//! Rules for everything that runs in a call:
//! - It takes no lock and allocates no memory. The exceptions are the first event of a process, which creates the ring, the first native
//!   stack of a thread, which asks for the thread's bounds, and the first one through an object, which asks the loader for it. In a program
//!   that the library was attached to, an event that follows the load of an object changes that object.
//! - It never waits for Python's global lock. A stack has Python frames if the calling thread holds that lock.
//! - It never fails a call: what cannot be recorded is counted.
//! - A call made while a record is written, as from a signal handler, is passed on and not recorded.
#![allow(unsafe_code, reason = "C functions, called with the caller's pointers")]

/// The atomics of the ring.
use std::sync::atomic as atomics;

mod accesses;
mod attach;
mod captured;
mod contexts;
mod driver;
mod entry_points;
mod facts;
mod graphs;
mod mapped;
#[cfg(target_arch = "x86_64")]
mod native;
mod next;
mod not_followed;
mod notes;
mod process;
mod python;
mod reading;
#[allow(dead_code, reason = "flags that only the reader and the phantom use")]
#[path = "../src/record.rs"]
mod record;
#[path = "../src/ring.rs"]
mod ring;
mod ring_file;
mod runtime;
mod stack;
mod torch;
mod wrap;
mod written;
