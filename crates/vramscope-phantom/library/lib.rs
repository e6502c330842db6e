//! The phantom GPU: a shared library that implements NVIDIA's driver, runtime and libraries on a GPU that only counts bytes.
//!
//! A program that preloads it (`LD_PRELOAD`) allocates, copies and launches as on a real GPU. The library counts allocations
//! and performs copies; kernels compute nothing. `table/` lists every call.
#![allow(unsafe_code, reason = "C functions, called with the caller's pointers")]

//!
//! # Modules
//! ```text
//!   command: run.rs makes a folder            program: its calls to CUDA
//!      |                                         |
//!      v                                         v
//!   src/state.rs  <---- one mapped file ---->  library/: table/ has every call
//!   (GPUs, bytes by process, notices)            memory/, streams, kernels, dnn/, nccl, nvml
//! ```
//!
//! - `table`: every call, one file for each NVIDIA library. The macro `calls!` makes the exported functions and the rows that lookups by
//!   name find. Nothing else is exported, except the recorder's hooks in `asks` and `memory`. `status` has the status codes of each library.
//!   `table/entry_points` and `table/links` look up functions by name, for programs and for newly loaded objects (`objects`). A function
//!   without a row gets a stand-in that reports it (`unknown`).
//! - `machine`: the GPUs of the run, and this process among its processes. One atomic addition takes bytes and stays below the card's
//!   size. The next process that looks frees the bytes of killed processes. `identity`: the UUID and the PCI address of a device.
//! - `memory`: a device's addresses, lowest gap first, in pieces of 2 MiB; virtual memory; pools. `copies` keeps values that the host
//!   wrote, and returns zeros for the rest. `file_pages` finds the file behind mapped host memory, which is read again instead of kept.
//! - `asks`: counts programs that query free or total memory. The caller on the stack identifies PyTorch's own queries.
//! - `memory/accesses`: the addresses that launches, library calls and copies access, for the recorder. `arguments` finds those of kernels,
//!   given the sizes of their parameters (`layouts`).
//! - `handles`: objects by number. `images`: machine code of kernels, which may be compressed (`lz4`, or Zstandard); a kernel without code for the
//!   card does not run. `launches`: counts device work. `graphs`: captured work as nodes with dependencies, which PyTorch's allocator walks
//!   to reuse memory. `version`: the versions of the program's libraries, from which layouts and signatures of CUDA follow.
//! - `timeline`: how far the GPU is, if it is late. `streams` asks it about events.
//! - `dnn`: cuDNN. Graphs of operations go to the program's own library, with a device in the place of the handle (`own`, `backend`); the
//!   functions with a handle are models (`algorithms`, `rnn`).
//! - `nccl`: `collectives` decides which rank sends what, `messages` carries it through files in the run's folder, read when a copy needs
//!   it. `barriers` has waiting operations, `buffers` the model of NCCL's bytes. In a pretended world (`phantom run --world-size`), one
//!   rank answers for all; the Python part is the command's `ranks.py`.
//! - `python`: the Python line that reads a value that a kernel would have computed (`memory/reads.rs`), using CPython's functions.
//!
//! `.ci/order` has the order of the modules. The library uses only Rust's standard library and `vramscope-bare`; `build.rs` compiles both.
//! Its unit tests are a test target of the crate.

#[path = "../src/architecture.rs"]
mod architecture;
mod arguments;
mod asks;
mod calls;
mod device;
mod dnn;
mod graphs;
mod handles;
mod identity;
mod images;
mod kernels;
mod launches;
mod layouts;
mod lz4;
mod machine;
mod memory;
mod nccl;
mod nvml;
mod objects;
mod out;
mod python;
mod signals;
#[path = "../src/state.rs"]
mod state;
mod status;
mod streams;
mod table;
mod texts;
mod threads;
mod timeline;
mod unknown;
mod version;
mod visible;
