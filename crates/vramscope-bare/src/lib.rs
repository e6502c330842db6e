#![doc = include_str!("../README.md")]
//!
//! # Modules
//! - `build`: compiles a shared library that uses this crate, in a build script. Only with the feature `build`.
//! - `sys`: functions and structures of the C library.
//! - `objects`: the loaded objects of this process.
//! - `python`: functions of CPython, found by their names.
//! - `zstd`: decompression of Zstandard.

#[cfg(feature = "build")]
pub mod build;
#[cfg(all(target_os = "linux", target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64")))]
pub mod objects;
pub mod python;
#[cfg(all(target_os = "linux", target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64")))]
pub mod sys;
pub mod zstd;
