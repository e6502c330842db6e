//! Comparison of two recordings.
//!
//! - `devices`: one device in two recordings, event by event and in all other respects.
//! - `memory`: the difference in memory at one moment of each recording, and its causes. `rows`: that memory by stack. `marks`: stacks
//!   that show a feature. `rules`: the causes, from specific to general.
//! - `holder_changes`: groups at two moments, of one recording or of two.
//! - `group_peaks`: each group at its own peak.
//! - `code_places`: lines of code that occur in both recordings, matched by their text.
//! - `settings`: allocator settings that differ.

mod code_places;
mod devices;
mod features;
mod group_peaks;
mod holder_changes;
mod memory;
mod rows;
mod rules;
mod settings;

pub use code_places::CodePlace;
pub use devices::{ChangedEvents, DeviceDiff, FreedBytes};
pub use features::Feature;
pub use group_peaks::{GroupPeakChange, GroupsInInterval, group_peaks_of_both};
pub use holder_changes::{HolderChange, HoldersOf, changed_holders, holders_of_both};
pub use memory::{
    CategoryDifference, ComparedPart, DeviceHistory, Difference, Finding, LineDifference, StackDifference,
};
pub use rules::{Cause, RULES, Rule};
pub use settings::{SettingDifference, changed_settings};
