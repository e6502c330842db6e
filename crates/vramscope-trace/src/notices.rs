//! Findings of a reader that are reported once.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::settings::TorchSettings;

/// Parts of a file that the [`Trace`](crate::Trace) does not include. They are reported to the user once and are not errors.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notices {
    /// Unknown keys as (record, key), with the number of times each is written. A pickle writes a frame once and refers to it
    /// afterwards.
    #[serde(with = "as_list")]
    pub unknown_keys: BTreeMap<(RecordKind, String), u64>,
    /// Occurrences of unknown keys beyond the first [`Notices::MOST`] distinct ones.
    pub more_unknown_keys: u64,
    /// Unknown actions with their number of events. The trace includes these events.
    pub unknown_actions: BTreeMap<String, u64>,
    /// Other unknown values of a log as (kind, name), with their number of occurrences.
    #[serde(with = "as_list")]
    pub unknown_values: BTreeMap<(ValueKind, String), u64>,
    /// Strings that were not UTF-8. Each bad byte became `U+FFFD`.
    pub mended_strings: u64,
    /// The settings' configuration text, if it was only partly understood.
    pub conf: Option<String>,
    /// Whether there are bytes after the end of the pickle.
    pub trailing_bytes: bool,
    /// Bytes of an incomplete write at the end of the file.
    pub cut_off_bytes: u64,
    /// Damaged places before the end of the file.
    #[serde(default)]
    pub damage: Damage,
    /// Ignored bytes of a log because another run wrote into its file: the bytes of that run, and bytes that are meaningless without
    /// the overwritten ones.
    pub foreign_bytes: u64,
    /// Whether a log was not closed: its program was killed or is still running.
    pub unclosed: bool,
}

/// Damaged places of a file. The readable data behind them is in the [`Trace`](crate::Trace), which also has the positions where events
/// may be missing ([`DeviceTrace::gap`](crate::DeviceTrace::gap)).
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Damage {
    /// Number of places.
    pub places: u64,
    /// Bytes of all places. A place has none if other data shows that something is missing there.
    pub bytes: u64,
    /// Offset of the first place in bytes.
    pub first: u64,
}

impl Damage {
    /// Adds a place.
    pub(crate) fn add(&mut self, offset: u64, bytes: u64) {
        if self.places == 0 {
            self.first = offset;
        }
        self.places += 1;
        self.bytes += bytes;
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { places, bytes, first } = self;
        match places {
            1 => write!(f, "the file is damaged at byte {first}")?,
            _ => write!(f, "the file is damaged at {places} places, the first at byte {first}")?,
        }
        if *bytes > 0 {
            write!(f, ": {bytes} bytes cannot be read")?;
        }
        write!(f, "; events may be missing")
    }
}

impl Notices {
    /// Maximum number of distinct unknown names to keep, because a hostile file may have millions.
    pub const MOST: usize = 32;

    pub(crate) fn unknown_key(&mut self, record: RecordKind, key: &str) {
        let at = (record, clip(key));
        if self.unknown_keys.len() < Self::MOST || self.unknown_keys.contains_key(&at) {
            *self.unknown_keys.entry(at).or_default() += 1;
        } else {
            self.more_unknown_keys += 1;
        }
    }

    pub(crate) fn unknown_action(&mut self, name: &str) {
        let name = clip(name);
        if self.unknown_actions.len() < Self::MOST || self.unknown_actions.contains_key(&name) {
            *self.unknown_actions.entry(name).or_default() += 1;
        }
    }

    pub(crate) fn unknown_value(&mut self, what: ValueKind, name: &str) {
        let at = (what, clip(name));
        if self.unknown_values.len() < Self::MOST || self.unknown_values.contains_key(&at) {
            *self.unknown_values.entry(at).or_default() += 1;
        }
    }
}

/// A record with unknown keys, in the order of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordKind {
    /// The allocator's settings.
    AllocatorSettings,
    /// An annotation.
    Annotation,
    /// A block of the end state.
    Block,
    /// A frame of a stack.
    Frame,
    /// An entry of the `history` of a block.
    HistoryEntry,
    /// A segment of the end state.
    Segment,
    /// The snapshot itself.
    Snapshot,
    /// An event.
    TraceEntry,
}

impl fmt::Display for RecordKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AllocatorSettings => "allocator settings",
            Self::Annotation => "annotations",
            Self::Block => "blocks",
            Self::Frame => "frames",
            Self::HistoryEntry => "history entries",
            Self::Segment => "segments",
            Self::Snapshot => "snapshots",
            Self::TraceEntry => "trace entries",
        })
    }
}

/// The kind of an unknown value of a log, in the order of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ValueKind {
    /// A kind of memory that the driver provides.
    DriverMemory,
    /// A statement about the recording.
    Fact,
    /// The kind of a segment.
    KindOfSegment,
    /// An allocator setting.
    Setting,
    /// The stage of a region.
    StageOfRegion,
    /// The state of a block.
    StateOfBlock,
}

impl fmt::Display for ValueKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DriverMemory => "kind of driver memory",
            Self::Fact => "statement",
            Self::KindOfSegment => "kind of segment",
            Self::Setting => "setting",
            Self::StageOfRegion => "stage of a region",
            Self::StateOfBlock => "state of a block",
        })
    }
}

/// Serializes a map as a list of entries, because the keys of a JSON object must be strings.
mod as_list {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<K: Serialize, S: Serializer>(
        map: &BTreeMap<K, u64>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(map)
    }

    pub(super) fn deserialize<'de, K: Deserialize<'de> + Ord, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<K, u64>, D::Error> {
        Ok(Vec::deserialize(deserializer)?.into_iter().collect())
    }
}

/// Returns the first 60 characters of a name.
fn clip(name: &str) -> String {
    name.chars().take(60).collect()
}

/// One line per notice.
impl fmt::Display for Notices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for ((record, key), n) in &self.unknown_keys {
            writeln!(f, "ignored the unknown key `{}` in {n} {record}", key.escape_debug())?;
        }
        if self.more_unknown_keys > 0 {
            writeln!(f, "ignored {} more values of other unknown keys", self.more_unknown_keys)?;
        }
        for (action, n) in &self.unknown_actions {
            writeln!(
                f,
                "{n} events have the unknown action `{}`; they have no effect",
                action.escape_debug()
            )?;
        }
        for ((what, name), n) in &self.unknown_values {
            writeln!(f, "unknown {what} `{}`: {n} occurrences", name.escape_debug())?;
        }
        if self.mended_strings > 0 {
            writeln!(f, "{} strings are not UTF-8; bad bytes show as U+FFFD", self.mended_strings)?;
        }
        if let Some(Err(error)) = self.conf.as_deref().map(TorchSettings::parse) {
            let (item, why) = (error.item.escape_debug(), error.why);
            writeln!(f, "the recorded allocator configuration is only partly understood: `{item}` {why}")?;
        }
        if self.trailing_bytes {
            writeln!(f, "ignored the bytes after the end of the pickle")?;
        }
        if self.damage.places > 0 {
            writeln!(f, "{}", self.damage)?;
        }
        if self.cut_off_bytes > 0 {
            writeln!(f, "ignored the last {} bytes, an incomplete write", self.cut_off_bytes)?;
        }
        if self.foreign_bytes > 0 {
            let n = self.foreign_bytes;
            writeln!(
                f,
                "ignored {n} bytes: another run wrote into the file; use a separate file for each run"
            )?;
        }
        if self.unclosed {
            writeln!(f, "the program did not close the recording: it was killed or is still running")?;
        }
        Ok(())
    }
}
