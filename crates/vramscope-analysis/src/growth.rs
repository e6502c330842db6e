//! Which lines hold more than in another recording.
//!
//! Two recordings share no ids, so lines are told by their text: file, line and function. Where the two share a
//! file of the user's, files are the same by their whole path; else, as for two checkouts of one program, by the
//! path from the directory that all the user's files share. An edit moves the lines below it: a function of which
//! each recording has lines that the other lacks is compared as a whole.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use hashbrown::{HashMap, HashSet};
use vramscope_trace::{FrameId, StringId};

use crate::frames::{Code, Frames};
use crate::history::{History, Origin};
use crate::holders::{By, HolderKey, holders_at};
use crate::moment::Moment;

/// A line that holds more than it did in the other recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grown {
    /// The line or function that holds the memory.
    pub place: Place,
    /// It was live before recording began, and only its free was recorded: the place is where that was.
    pub freed_there: bool,
    /// Bytes that it has allocated in the newer recording.
    pub bytes: u64,
    /// Bytes that it had allocated in the older recording.
    pub was: u64,
}

impl Grown {
    /// The bytes by which it holds more than before.
    pub fn by(&self) -> u64 {
        self.bytes.saturating_sub(self.was)
    }
}

/// What holds memory in the newer of two recordings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Allocations without a stack.
    NoStack,
    /// A line of the user's; see [`Frames::own_frame`].
    Line(FrameId),
    /// A function whose lines are not where they were; the frame is the line of it that holds most.
    Function(FrameId),
}

/// A recording at a moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HistoryAt<'h> {
    pub(crate) history: &'h History,
    pub(crate) frames: &'h Frames,
    pub(crate) moment: Moment,
}

/// A function as two recordings, which share no ids, can both name it: by its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct FunctionText {
    freed_there: bool,
    /// File and function, as [`Texts`] numbers them; `None` without a stack.
    name: Option<(usize, usize)>,
}

/// The allocated bytes of one line of code.
#[derive(Debug, Clone, Copy, Default)]
struct LineBytes {
    bytes: u64,
    frame: Option<FrameId>,
}

/// The lines of a function that hold something, by their numbers.
type Lines = BTreeMap<u32, LineBytes>;

/// The lines that hold more of the allocated bytes at `new` than at `old`, those that grew most first.
pub(crate) fn grown(new: HistoryAt<'_>, old: HistoryAt<'_>) -> Vec<Grown> {
    let mut texts = Texts { whole_paths: share_a_file(new, old), numbers: HashMap::new() };
    let mut before = texts.functions(old);
    let mut grown = Vec::new();
    for (function, lines) in texts.functions(new) {
        let freed_there = function.freed_there;
        let old_lines = before.remove(&function).unwrap_or_default();
        let lacks = |a: &Lines, b: &Lines| b.keys().any(|number| !a.contains_key(number));
        if lacks(&lines, &old_lines) && lacks(&old_lines, &lines) {
            let total = |lines: &Lines| lines.values().map(|h| h.bytes).sum();
            let most = lines.values().max_by_key(|h| h.bytes).and_then(|h| h.frame);
            let place = most.map_or(Place::NoStack, Place::Function);
            grown.push(Grown { place, freed_there, bytes: total(&lines), was: total(&old_lines) });
            continue;
        }
        for (number, held) in lines {
            let was = old_lines.get(&number).map_or(0, |h| h.bytes);
            let place = held.frame.map_or(Place::NoStack, Place::Line);
            grown.push(Grown { place, freed_there, bytes: held.bytes, was });
        }
    }
    grown.retain(|g| g.bytes > g.was);
    grown.sort_by_key(|g| Reverse(g.by()));
    grown
}

/// Some file of the user's is in both.
fn share_a_file(a: HistoryAt<'_>, b: HistoryAt<'_>) -> bool {
    let [a, b] = [a, b].map(|at| {
        let trace = at.history.trace();
        let users = trace.frames.iter().filter(|&(id, _)| at.frames.code(id) == Code::User);
        let files: HashSet<StringId> = users.map(|(_, f)| f.filename).collect();
        files.into_iter().map(|file| trace.strings.get(file)).collect::<HashSet<&str>>()
    });
    !a.is_disjoint(&b)
}

/// Numbers for the texts of two recordings. Few texts stand behind many lines, and any may be long.
struct Texts {
    whole_paths: bool,
    numbers: HashMap<String, usize>,
}

impl Texts {
    /// What the lines of each function hold.
    fn functions(&mut self, at: HistoryAt<'_>) -> BTreeMap<FunctionText, Lines> {
        let trace = at.history.trace();
        let mut known: HashMap<(StringId, Option<Code>), usize> = HashMap::new();
        let mut functions: BTreeMap<FunctionText, Lines> = BTreeMap::new();
        for holder in holders_at(at.history, at.frames, at.moment, By::Line) {
            let frame = match holder.key {
                HolderKey::Line(frame) => Some(frame),
                _ => None,
            };
            let name = frame.map(|id| {
                let frame = trace.frames.get(id);
                let name = |texts: &mut Self| texts.number(trace.strings.get(frame.name));
                let path = |texts: &mut Self| match texts.whole_paths {
                    true => texts.number(trace.strings.get(frame.filename)),
                    false => texts.number(&at.frames.short_path(trace, id)),
                };
                // A path is shortened by whose code it is.
                let code = Some(at.frames.code(id));
                let path = *known.entry((frame.filename, code)).or_insert_with(|| path(self));
                let name = *known.entry((frame.name, None)).or_insert_with(|| name(self));
                (path, name)
            });
            let number = frame.map_or(0, |id| trace.frames.get(id).line);
            let function = FunctionText { freed_there: holder.origin == Some(Origin::FreeOnly), name };
            let held = functions.entry(function).or_default().entry(number).or_default();
            held.bytes += holder.bytes;
            held.frame = held.frame.or(frame);
        }
        functions
    }

    fn number(&mut self, text: &str) -> usize {
        let next = self.numbers.len();
        *self.numbers.entry_ref(text).or_insert(next)
    }
}
