//! Lines of code that two recordings both have, told by their text.
//!
//! Two recordings share no ids, so lines are told by their text: file, line and function. Where the two share a
//! file of the user's, files are the same by their whole path; else, as for two checkouts of one program, by the
//! path from the directory that all the user's files share. An edit moves the lines below it: a function of which
//! each recording has lines that the other lacks is one place as a whole.

use std::collections::BTreeSet;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use vramscope_trace::{FrameId, StackId, StringId, Trace};

use crate::both::{Both, Side};
use crate::frames::{Code, Frames};

/// A recording, and whose code its frames are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Coded<'t> {
    pub(crate) trace: &'t Trace,
    pub(crate) frames: &'t Frames,
}

/// The most frames by which stacks are told apart, innermost first: recursion without an end makes a million of them.
const MOST_FRAMES: usize = 100;

impl Coded<'_> {
    /// The frames that a stack is told by, innermost first: those of Python, where it has any.
    pub(crate) fn telling(&self, stack: StackId) -> Vec<FrameId> {
        let frames = self.trace.stacks.get(stack);
        let python = frames.iter().copied().filter(|&frame| self.frames.code(frame) != Code::Native);
        let python: Vec<FrameId> = python.take(MOST_FRAMES).collect();
        if python.is_empty() { frames.iter().copied().take(MOST_FRAMES).collect() } else { python }
    }
}

/// The number of a place in [`Places`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PlaceId(usize);

/// A line, or a function as a whole, of two recordings.
#[derive(Debug, Clone)]
pub(crate) struct MatchedPlace {
    /// The path of its file, from the directory that the user's files share or that packages are installed in.
    pub(crate) file: Arc<str>,
    /// Places of one file have the same number.
    pub(crate) file_number: usize,
    /// The function.
    pub(crate) function: Arc<str>,
    /// Its lines are not where they were, and are one place.
    pub(crate) is_function: bool,
    /// The first frame of each recording that is in this place.
    pub(crate) frames: Both<Option<FrameId>>,
}

/// What holds memory in one of two recordings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Allocations without a stack.
    NoStack,
    /// A line of the user's; see [`Frames::own_frame`].
    Line(FrameId),
    /// A function whose lines are not where they were; the frame is one of its lines, where one of them is known to hold most
    /// that one.
    Function(FrameId),
}

impl MatchedPlace {
    /// What it is called in one of the recordings; `None` where that lacks it.
    pub(crate) fn in_recording(&self, side: Side) -> Option<Place> {
        let named = if self.is_function { Place::Function } else { Place::Line };
        self.frames.of(side).map(named)
    }
}

/// The places of two recordings.
#[derive(Debug)]
pub(crate) struct Places {
    places: Vec<MatchedPlace>,
    of_frames: Both<HashMap<FrameId, PlaceId>>,
}

impl Places {
    /// Tells apart where the frames `used` by each recording are.
    pub(crate) fn of(coded: Both<Coded<'_>>, used: &Both<Vec<FrameId>>) -> Self {
        let mut texts = Texts { whole_paths: share_a_file(coded), numbers: HashMap::new(), all: Vec::new() };
        let functions = Both { a: texts.functions(coded.a, &used.a), b: texts.functions(coded.b, &used.b) };
        let lines = functions.map(|functions| {
            let mut lines: HashMap<Function, BTreeSet<u32>> = HashMap::new();
            functions.iter().for_each(|&(_, function, line)| {
                lines.entry(function).or_default().insert(line);
            });
            lines
        });
        let is_moved = |function: &Function| match (lines.a.get(function), lines.b.get(function)) {
            (Some(a), Some(b)) => !a.is_subset(b) && !b.is_subset(a),
            _ => false,
        };
        let mut known: HashMap<(Function, Option<u32>), PlaceId> = HashMap::new();
        let mut this = Self { places: Vec::new(), of_frames: Both::default() };
        for side in Side::BOTH {
            for &(frame, function, line) in functions.of(side) {
                let line = (!is_moved(&function)).then_some(line);
                let id = *known.entry((function, line)).or_insert_with(|| {
                    this.places.push(MatchedPlace {
                        file: texts.all[function.file].clone(),
                        file_number: function.file,
                        function: texts.all[function.name].clone(),
                        is_function: line.is_none(),
                        frames: Both::default(),
                    });
                    PlaceId(this.places.len() - 1)
                });
                this.of_frames.of_mut(side).insert(frame, id);
                this.places[id.0].frames.of_mut(side).get_or_insert(frame);
            }
        }
        this
    }

    /// Where a frame of one recording is; `None` where it was not among those used.
    pub(crate) fn place(&self, side: Side, frame: FrameId) -> Option<PlaceId> {
        self.of_frames.of(side).get(&frame).copied()
    }

    pub(crate) fn get(&self, place: PlaceId) -> &MatchedPlace {
        &self.places[place.0]
    }
}

/// A function as two recordings can both name it: file and name, as [`Texts`] numbers them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Function {
    file: usize,
    name: usize,
}

/// Some file of the user's is in both.
fn share_a_file(coded: Both<Coded<'_>>) -> bool {
    let files = coded.map(|&Coded { trace, frames }| {
        let users = trace.frames.iter().filter(|&(id, _)| frames.code(id) == Code::User);
        let files: HashSet<StringId> = users.map(|(_, f)| f.filename).collect();
        files.into_iter().map(|file| trace.strings.get(file)).collect::<HashSet<&str>>()
    });
    !files.a.is_disjoint(&files.b)
}

/// Numbers for the texts of two recordings. Few texts stand behind many lines, and any may be long.
struct Texts {
    whole_paths: bool,
    numbers: HashMap<Arc<str>, usize>,
    all: Vec<Arc<str>>,
}

impl Texts {
    /// The function and the line of each frame, each frame once.
    fn functions(&mut self, coded: Coded<'_>, used: &[FrameId]) -> Vec<(FrameId, Function, u32)> {
        let Coded { trace, frames } = coded;
        let mut known: HashMap<(StringId, Option<Code>), usize> = HashMap::new();
        let mut seen: HashSet<FrameId> = HashSet::new();
        let mut functions = Vec::new();
        for &id in used.iter().filter(|&&id| seen.insert(id)) {
            let frame = trace.frames.get(id);
            // A path is shortened by whose code it is.
            let code = Some(frames.code(id));
            let file = *known.entry((frame.filename, code)).or_insert_with(|| match self.whole_paths {
                true if code == Some(Code::User) => self.number(trace.strings.get(frame.filename)),
                _ => self.number(&frames.short_path(trace, id)),
            });
            let name = *known
                .entry((frame.name, None))
                .or_insert_with(|| self.number(trace.strings.get(frame.name)));
            functions.push((id, Function { file, name }, frame.line));
        }
        functions
    }

    fn number(&mut self, text: &str) -> usize {
        if let Some(&number) = self.numbers.get(text) {
            return number;
        }
        let text: Arc<str> = text.into();
        self.all.push(text.clone());
        self.numbers.insert(text, self.all.len() - 1);
        self.all.len() - 1
    }
}
