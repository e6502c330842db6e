#![doc = include_str!("../README.md")]

mod architecture;
mod machine;
mod run;
mod state;

pub use architecture::cubin_runs;
pub use machine::{
    AskedAt, GpuUse, MachineCounts, MachineReport, PhantomGpu, PhantomMig, ReadAt, TimedAt, Unanswered,
    UnansweredKind,
};
pub use run::{PhantomError, PhantomOptions, PhantomRun};
