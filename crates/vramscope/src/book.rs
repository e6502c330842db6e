//! The Rust examples of the README and the book, compiled and run with the tests.

/// The book: Rust programs.
#[cfg(feature = "macros")]
#[doc = include_str!("../../../docs/rust.md")]
struct Rust;

/// The README of this crate.
#[doc = include_str!("../README.md")]
struct OfTheCrate;

/// The README of the crate of `#[profile]`, which cannot use its own macro.
#[cfg(feature = "macros")]
#[doc = include_str!("../../vramscope-macros/README.md")]
struct OfMacros;

/// The book: the pool.
#[cfg(feature = "cuda")]
#[doc = include_str!("../../../docs/pool.md")]
struct Pool;

/// The book: the profiler.
#[cfg(feature = "macros")]
#[doc = include_str!("../../../docs/profiler.md")]
struct Profiler;

/// The book: recordings.
#[cfg(feature = "export")]
#[doc = include_str!("../../../docs/recordings.md")]
struct Recordings;

/// The book: watching.
#[cfg(unix)]
#[doc = include_str!("../../../docs/watch.md")]
struct Watch;

/// The book: metrics.
#[cfg(feature = "prometheus")]
#[doc = include_str!("../../../docs/prometheus.md")]
struct Prometheus;
