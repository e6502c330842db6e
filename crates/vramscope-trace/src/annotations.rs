//! Regions that the program named while it ran.

use crate::ids::StringId;
use crate::named::named;

/// One end of a `torch.profiler.record_function` region, from `external_annotations`.
///
/// The two ends of a region are two entries without a common id. They pair by name, innermost first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Annotation {
    /// Start or end.
    pub stage: Stage,
    /// The region's name, such as `Optimizer.step#AdamW.step`.
    pub name: StringId,
    /// The current device, or -1 if the entry has none.
    pub device: i64,
    /// Microseconds since the Unix epoch, if recorded.
    pub time_us: Option<i64>,
}

named! {
    /// The end of a region that an [`Annotation`] marks.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Stage {
        /// Start of the region.
        Start = "START",
        /// End of the region.
        End = "END",
    }
    /// Both ends.
    ALL
    /// Returns the name in a snapshot.
    name
}
