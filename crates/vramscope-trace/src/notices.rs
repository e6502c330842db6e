//! What a reader kept out of the way, to be named once.

use std::collections::BTreeMap;
use std::fmt;

/// Things in a file that do not reach the [`Trace`](crate::Trace): to be told to the user once, not an error.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Notices {
    /// Keys without a known meaning, as (record, key), with how often each is written. A pickle writes a frame once
    /// and refers to it where it comes again.
    pub unknown_keys: BTreeMap<(&'static str, String), u64>,
    /// Occurrences of further unknown keys, beyond the first [`Notices::MOST`] distinct ones.
    pub more_unknown_keys: u64,
    /// Actions without a known meaning, with how often each came. Their events are kept.
    pub unknown_actions: BTreeMap<String, u64>,
    /// Other values of a log without a known meaning, as (what it is, name), with how often each came.
    pub unknown_values: BTreeMap<(&'static str, String), u64>,
    /// Strings that were not UTF-8; each bad byte became `U+FFFD`.
    pub mended_strings: u64,
    /// Why the settings' configuration text could not be read in full.
    pub conf: Option<String>,
    /// There are bytes after the end of the pickle.
    pub trailing_bytes: bool,
    /// Bytes at the end of a log that belong to a write that was not finished.
    pub cut_off_bytes: u64,
    /// Bytes of a log that are left out because another run wrote into its file: what that run wrote, and what
    /// means nothing without what it wrote over.
    pub foreign_bytes: u64,
    /// A log was not closed: its program was killed, or it still runs.
    pub unclosed: bool,
}

impl Notices {
    /// How many distinct unknown names are kept: a hostile file may hold millions.
    pub const MOST: usize = 32;

    pub(crate) fn unknown_key(&mut self, record: &'static str, key: &str) {
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

    pub(crate) fn unknown_value(&mut self, what: &'static str, name: &str) {
        let at = (what, clip(name));
        if self.unknown_values.len() < Self::MOST || self.unknown_values.contains_key(&at) {
            *self.unknown_values.entry(at).or_default() += 1;
        }
    }
}

/// The start of a name that may be long.
fn clip(name: &str) -> String {
    name.chars().take(60).collect()
}

/// One line a notice.
impl fmt::Display for Notices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for ((record, key), n) in &self.unknown_keys {
            writeln!(f, "left out the unknown key `{}` of {n} {record}", key.escape_debug())?;
        }
        if self.more_unknown_keys > 0 {
            writeln!(f, "left out {} more values under other unknown keys", self.more_unknown_keys)?;
        }
        for (action, n) in &self.unknown_actions {
            writeln!(
                f,
                "{n} events have the unknown action `{}`; they change nothing",
                action.escape_debug()
            )?;
        }
        for ((what, name), n) in &self.unknown_values {
            writeln!(f, "`{}` is no known {what}; it was met {n} times", name.escape_debug())?;
        }
        if self.mended_strings > 0 {
            writeln!(f, "{} strings are not UTF-8; bad bytes show as U+FFFD", self.mended_strings)?;
        }
        if let Some(why) = &self.conf {
            writeln!(f, "the recorded allocator configuration is only partly understood: {why}")?;
        }
        if self.trailing_bytes {
            writeln!(f, "ignored what follows the end of the pickle")?;
        }
        if self.cut_off_bytes > 0 {
            writeln!(f, "left out the last {} bytes, a write that was not finished", self.cut_off_bytes)?;
        }
        if self.foreign_bytes > 0 {
            let n = self.foreign_bytes;
            writeln!(
                f,
                "left out {n} bytes: another run wrote into the file; give each run a file of its own"
            )?;
        }
        if self.unclosed {
            writeln!(f, "the program did not close the recording: it was killed, or it still runs")?;
        }
        Ok(())
    }
}
