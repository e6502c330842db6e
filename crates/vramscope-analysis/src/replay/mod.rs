//! Replays recordings through the allocator: under the recorded settings, to prove that the allocator's rules made the recording;
//! under other settings, to predict the outcome.
//!
//! ```text
//!   History --> program.rs: requests as steps, slots instead of addresses
//!                  |
//!                  v
//!   readings.rs: ambiguous parts, read such that most is reproduced
//!                  |
//!                  v
//!   runs.rs, run.rs  <-- start.rs: memory from before the first event
//!     |
//!     +-- on recorded_device.rs: recorded addresses, notices the first difference     Reproduction
//!     +-- on VirtualDevice: another setting, another size                             Outcome
//!                  |
//!                  v
//!   what_if.rs: settings in parallel, ranked; reach.rs: settings without effect run once;
//!   lower_bounds.rs; explain.rs; answer.rs: all of it                               DeviceReplay
//! ```
//!
//! - `completed_history`: a history with the block sizes of a replay that reproduces the recording.
//! - `gpus`: whether a program fits on a GPU.
//! - `plan`: requests placed with known lifetimes, and their replay.
//! - `capacity`, `recorded_capacity`: the size of a device, given or recorded. `settings`, `setting_change`: settings to try.
//! - `first_difference`, `limitations`, `error`, `first_use`: how far a replay is exact.
//!
//! A replay has no rules of its own: it uses the pool's engine on one of two devices. The recorded device returns recorded addresses as
//! long as the allocator does what was recorded. Without a given capacity it is full where the recording goes on to free segments. It
//! proves the rules: every segment event and the final layout must match.
//!
//! The program's actions must be separated from the allocator's, because only the program's happen again under other settings:
//!
//! - `empty_cache` is not recorded. Freed segments belong to the next request if they have its stack, because everything inside a request
//!   has it. If stacks do not decide, the device counts as full if the request would have set a new record; the answer states this
//!   assumption.
//! - A free completes right after its request, with its own stack, unless another stream still uses the block. A request that waits for
//!   that stream may also follow directly; the completion then has the request's stack. If stacks do not decide, no request waited.
//! - If the likely reading does not reproduce the recording, `Replay::of` reverses it at the last ambiguous place, and keeps the change
//!   if it gets further. The order of search, which differs by release, is handled in the same way.
//!
//! Addresses that were reserved for a request that then failed cannot be recovered from a recording.
//!
//! Memory from before recording: under the recorded settings, the starting layout is the end state with every event undone, placed block
//! by block. Ages of segments are unknown and follow the order of addresses. Under other settings, the memory is requested anew in the
//! order of addresses, and the answer is marked as approximate.

mod answer;
mod capacity;
mod completed_history;
mod error;
mod explain;
mod first_difference;
mod first_use;
mod gpus;
mod limitations;
mod lower_bounds;
mod plan;
mod program;
mod reach;
mod readings;
mod recorded_capacity;
mod recorded_device;
mod run;
mod runs;
mod setting_change;
mod settings;
mod start;
mod what_if;

pub use answer::{CapacityFrom, DeviceReplay, Recorded, ReplayOptions};
pub use capacity::{Capacity, ReplayDevice};
pub use error::ReplayError;
pub use first_difference::{EndBlock, MemoryEvent, ReplayDifference};
pub use gpus::{Demand, Fit, FitReplay, GpuFit, fit_on_device, fit_on_gpus};
pub use limitations::ReplayLimitation;
pub use lower_bounds::LowerBounds;
pub use plan::{DynamicLine, PlanReplay, PlanSource, RecordedPlan, StepPlan};
pub use run::{Failure, Outcome};
pub use runs::{Replay, Reproduction};
pub use setting_change::SettingChange;
pub use settings::Setting;
pub use what_if::{BestSetting, FittingGpu, LessReserved, Nearest, Recommended, Tried};
