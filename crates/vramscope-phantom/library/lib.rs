//! The phantom GPU: a shared library that implements NVIDIA's driver, runtime and libraries on a GPU that only counts bytes.
//!
//! A program that preloads it (`LD_PRELOAD`) allocates, copies and launches as on a real GPU. The library counts allocations
//! and performs copies; kernels compute nothing. `table/` lists every call.
#![allow(unsafe_code, reason = "C functions, called with the caller's pointers")]

#[path = "../src/architecture.rs"]
mod architecture;
mod asks;
mod calls;
mod device;
mod dnn;
mod entry_points;
mod graphs;
mod handles;
mod images;
mod kernels;
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
mod sys;
mod table;
mod texts;
mod threads;
mod unknown;
mod version;
mod visible;
