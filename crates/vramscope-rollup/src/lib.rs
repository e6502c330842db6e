//! SQL over the recordings of many ranks, in this process or on a cluster, from disks and from stores.
//!
//! ```text
//!   SQL --> DataFusion plan, with a scan per table --> batches of rows --> table, CSV, JSON, Parquet
//!              in this process: a share of the recordings is a task
//!              on a cluster:    a recording is a task of Ballista, sent by the Codec
//! ```

mod answers;
mod cluster;
mod codec;
mod provider;
mod query;
mod reading;
mod scan;
mod store;
mod tables;

pub use answers::{Format, MOST_SHOWN};
pub use cluster::{ClusterError, Executor, run_scheduler};
pub use query::{Answered, Job, QueryError};
pub use reading::Reading;
pub use store::{Stores, list_stored};

/// Compiles the README's example with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
