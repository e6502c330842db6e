//! Replays recordings through the allocator: under the recorded settings, to prove that the allocator's rules made the recording;
//! under other settings, to predict the outcome.

mod answer;
mod capacity;
mod divergence;
mod doubts;
mod error;
mod explain;
mod first_use;
mod floors;
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
pub use divergence::{Divergence, EndBlock, MemoryEvent};
pub use doubts::Doubt;
pub use error::ReplayError;
pub use floors::Floors;
pub use run::{Failure, Outcome};
pub use runs::{Replay, Reproduction};
pub use setting_change::SettingChange;
pub use settings::{Setting, useful_settings};
pub use what_if::{BestSetting, FittingGpu, Nearest, Recommended, Tried};
