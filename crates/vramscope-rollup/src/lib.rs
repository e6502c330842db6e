//! SQL over the recordings of many ranks, in this process or on a cluster, from disks and from stores.
//!
//! ```text
//!   SQL --> DataFusion plan, with a scan per table --> batches of rows --> table, CSV, JSON, Parquet
//!              in this process: a share of the recordings is a task
//!              on a cluster:    a recording is a task of Ballista, sent by the Codec
//! ```
//!
//! # Modules
//! - `query`: a `Job` plans SQL. `provider`: a table; filters on rank, host and file select recordings. `scan`: the data source. `codec`:
//!   plan and table as JSON for other machines. `cluster`: Ballista's scheduler, executor and client. `store`: S3, GS and HTTP as
//!   streams. `sandbox`: what a query may not do. `limits`: its time and memory. `rows`: a bounded result as values, for the SQL console of the page.
//! - In one process, recordings are files of DataFusion's scan, distributed over one thread for each core. On a cluster, each is a
//!   group and a task of Ballista. A custom plan node would not work: Ballista distributes a file scan, but runs all of a custom leaf
//!   in each task.
//! - A thread reads a recording only when its rows are requested, and waits while two batches are pending. So recordings do not
//!   accumulate in memory behind a join. Only the columns of the plan are computed.
//! - `error`: why a query fails.
//! - `answers`: the rows of a query result, written as they arrive.
//! - `reading`: options for reading recordings, and recordings that are open in this process.
//! - `tables`: the SQL tables, each with columns that identify the recording.

mod answers;
mod cluster;
mod codec;
mod error;
mod limits;
mod provider;
mod query;
mod reading;
mod rows;
mod sandbox;
mod scan;
mod store;
mod tables;

pub use answers::{AnswerFormat, MOST_SHOWN};
pub use cluster::{ClusterError, Executor, run_scheduler};
pub use error::QueryError;
pub use query::{Answered, Job};
pub use reading::{OpenSessions, ReadingOptions};
pub use rows::{Bounds, RowColumn, Rows, tables};
pub use store::{Stores, list_stored};

/// Compiles the README's example with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
