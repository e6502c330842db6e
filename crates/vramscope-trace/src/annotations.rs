//! Regions the program named while it ran.

use crate::ids::StringId;

/// One end of a `torch.profiler.record_function` region, from `external_annotations`.
///
/// The two ends of a region are two entries without a common id; they pair by name, innermost first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Annotation {
    /// Which end.
    pub stage: Stage,
    /// The region's name, such as `Optimizer.step#AdamW.step`.
    pub name: StringId,
    /// The device that was current; -1 where the entry names none.
    pub device: i64,
    /// Microseconds since the Unix epoch, where recorded.
    pub time_us: Option<i64>,
}

/// Which end of a region an [`Annotation`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The region begins.
    Start,
    /// The region ends.
    End,
}
