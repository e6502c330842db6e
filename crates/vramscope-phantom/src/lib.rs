#![doc = include_str!("../README.md")]

mod machine;
mod run;
mod state;

pub use machine::{Counts, GpuUse, MachineReport, PhantomGpu, ReadAt, Unanswered};
pub use run::{PhantomError, PhantomOptions, PhantomRun, with_first};
