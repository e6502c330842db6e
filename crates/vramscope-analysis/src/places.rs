//! Lines of code that two recordings both have, told by their text.
//!
//! Two recordings share no ids, so lines are told by their text: file, line and function. Where the two share a
//! file of the user's, files are the same by their whole path; else, as for two checkouts of one program, by the
//! path from the directory that all the user's files share. A file that only one recording has in this way is matched by
//! the end of its path: see [`twins`]. An edit moves the lines below it: a function of which
//! each recording has lines that the other lacks is one place as a whole.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
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
        let mut functions =
            Both { a: texts.functions(coded.a, &used.a), b: texts.functions(coded.b, &used.b) };
        let files = Both { a: files(coded.a, &functions.a), b: files(coded.b, &functions.b) };
        let twins = twins(&files, texts.whole_paths);
        for (_, function, _) in &mut functions.b {
            function.file = twins.get(&function.file).copied().unwrap_or(function.file);
        }
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

/// What tells whether a file of one recording is that of another.
struct File<'t> {
    path: &'t str,
    /// The path from the directory that packages are installed in; `None` of the user's files.
    in_packages: Option<String>,
    /// The functions and lines that the recording has of it.
    lines: HashSet<(usize, u32)>,
}

/// The files of some functions, by their numbers.
fn files<'t>(coded: Coded<'t>, functions: &[(FrameId, Function, u32)]) -> BTreeMap<usize, File<'t>> {
    let Coded { trace, frames } = coded;
    let mut files = BTreeMap::new();
    for &(id, function, line) in functions.iter().filter(|&&(id, ..)| frames.code(id) != Code::Native) {
        let of_frame = || File {
            path: trace.strings.get(trace.frames.get(id).filename),
            in_packages: (frames.code(id) == Code::Library).then(|| frames.short_path(trace, id)),
            lines: HashSet::new(),
        };
        files.entry(function.file).or_insert_with(of_frame).lines.insert((function.name, line));
    }
    files
}

/// For files that only B has, the numbers of their twins among those that only A has. Twins share a function and the end of their paths,
/// the longest first; an end that several files of one recording have decides nothing.
///
/// - Two files of the user's share the last directory, too. In two checkouts the file's name is enough; in one checkout it is where
///   one is a copy of the other: they share half of their lines.
/// - Of an installed package and a checkout of it, the whole path within the package is shared.
fn twins(files: &Both<BTreeMap<usize, File<'_>>>, one_checkout: bool) -> HashMap<usize, usize> {
    let alone = |side: Side| -> Vec<usize> {
        let others = files.of(side.other());
        files.of(side).keys().filter(|number| !others.contains_key(number)).copied().collect()
    };
    let mut left = Both { a: alone(Side::A), b: alone(Side::B) };
    let mut twins = HashMap::new();
    if left.a.is_empty() || left.b.is_empty() {
        return twins;
    }
    let mut pairs: Vec<(usize, usize, usize)> = Vec::new();
    for &a in &left.a {
        for &b in &left.b {
            let (of_a, of_b) = (&files.a[&a], &files.b[&b]);
            let length = common_end(of_a.path, of_b.path);
            if are_twins(of_a, of_b, length, one_checkout) {
                pairs.push((length, a, b));
            }
        }
    }
    pairs.sort_unstable_by_key(|&(length, a, b)| (Reverse(length), a, b));
    for same_length in pairs.chunk_by(|x, y| x.0 == y.0) {
        let is_left = |&&(_, a, b): &&(usize, usize, usize)| left.a.contains(&a) && left.b.contains(&b);
        let open: Vec<_> = same_length.iter().filter(is_left).copied().collect();
        for &(_, a, b) in &open {
            if open.iter().filter(|&&(_, other_a, other_b)| other_a == a || other_b == b).count() == 1 {
                twins.insert(b, a);
            }
        }
        for (_, a, b) in open {
            left.a.retain(|&file| file != a);
            left.b.retain(|&file| file != b);
        }
    }
    twins
}

/// How many parts the paths share at their ends.
fn common_end(a: &str, b: &str) -> usize {
    let parts = |path: &str| path.rsplit(['/', '\\']).map(str::to_owned).collect::<Vec<_>>();
    parts(a).iter().zip(parts(b)).take_while(|(a, b)| **a == *b).count()
}

fn are_twins(a: &File<'_>, b: &File<'_>, common: usize, one_checkout: bool) -> bool {
    let shares_function = a.lines.iter().any(|(name, _)| b.lines.iter().any(|(other, _)| name == other));
    let is_copy = || a.lines.intersection(&b.lines).count() * 2 >= a.lines.len().min(b.lines.len());
    let ends_alike = match (&a.in_packages, &b.in_packages) {
        (None, None) => common >= 2 || (common == 1 && (!one_checkout || is_copy())),
        (Some(path), None) | (None, Some(path)) => common >= 2 && common >= path.split('/').count(),
        (Some(_), Some(_)) => false,
    };
    ends_alike && shares_function
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
