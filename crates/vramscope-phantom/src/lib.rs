#![doc = include_str!("../README.md")]

mod architecture;
mod machine;
mod run;
mod state;

pub use architecture::cubin_runs;
pub use machine::{AskedAt, Counts, GpuUse, MachineReport, PhantomGpu, ReadAt, Unanswered};
pub use run::{PhantomError, PhantomOptions, PhantomRun};
