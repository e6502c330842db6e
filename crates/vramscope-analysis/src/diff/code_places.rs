//! Lines of code that occur in two recordings, matched by their text.
//!
//! Two recordings share no ids, so lines are matched by file, line number and function. If the recordings share a user file, user
//! files match by their whole path. Otherwise, as for two checkouts of one program, they match by the path from the common
//! directory of all user files. A file that remains unmatched is matched by the end of its path; see [`twins`]. An edit moves the
//! lines below it: if each recording has lines of a function that the other lacks, the whole function is one place.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use vramscope_basics::count_steps;
use vramscope_trace::{FrameId, StackId, StringId, Trace};

use crate::basics::{Both, Side};
use crate::stacks::{Code, Frames};

/// A recording with the classification of its frames.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Coded<'t> {
    pub(crate) trace: &'t Trace,
    pub(crate) frames: &'t Frames,
}

/// The largest number of frames, innermost first, by which stacks are distinguished; infinite recursion makes a million of them.
const MOST_FRAMES: usize = 100;

impl Coded<'_> {
    /// Returns the frames that identify a stack, innermost first: only its Python frames, if it has any.
    pub(crate) fn telling(&self, stack: StackId) -> Vec<FrameId> {
        let frames = self.trace.stacks.get(stack);
        let python = frames.iter().copied().filter(|&frame| self.frames.code(frame) != Code::Native);
        let python: Vec<FrameId> = python.take(MOST_FRAMES).collect();
        if python.is_empty() { frames.iter().copied().take(MOST_FRAMES).collect() } else { python }
    }
}

/// The index of a place in [`CodePlaces`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PlaceId(usize);

/// A line, or a whole function, in two recordings.
#[derive(Debug, Clone)]
pub(crate) struct MatchedPlace {
    /// The path of its file, relative to the common directory of the user files or to the directory of installed packages.
    pub(crate) file: Arc<str>,
    /// Places in one file have the same number.
    pub(crate) file_number: usize,
    /// The function.
    pub(crate) function: Arc<str>,
    /// The place is a whole function whose lines an edit moved.
    pub(crate) is_function: bool,
    /// The first frame in this place, in each recording.
    pub(crate) frames: Both<Option<FrameId>>,
}

/// A place that holds memory in one of two recordings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodePlace {
    /// Allocations without a stack.
    NoStack,
    /// A line; see [`Frames::own_frame`].
    Line(FrameId),
    /// A whole function whose lines an edit moved. The frame is one of its lines: the one that holds most, if known.
    Function(FrameId),
}

impl MatchedPlace {
    /// Returns the place in one of the recordings; `None` if that recording lacks it.
    pub(crate) fn in_recording(&self, side: Side) -> Option<CodePlace> {
        let named = if self.is_function { CodePlace::Function } else { CodePlace::Line };
        self.frames.of(side).map(named)
    }
}

/// The places of two recordings.
#[derive(Debug)]
pub(crate) struct CodePlaces {
    places: Vec<MatchedPlace>,
    of_frames: Both<HashMap<FrameId, PlaceId>>,
}

impl CodePlaces {
    /// Determines the places of the frames `used` in each recording.
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
        // Each function once, not once for each of its lines.
        let is_moved = |(function, a): (&Function, &BTreeSet<u32>)| {
            count_steps(a.len());
            lines.b.get(function).filter(|b| !a.is_subset(b) && !b.is_subset(a)).map(|_| *function)
        };
        let moved: HashSet<Function> = lines.a.iter().filter_map(is_moved).collect();
        let mut known: HashMap<(Function, Option<u32>), PlaceId> = HashMap::new();
        let mut this = Self { places: Vec::new(), of_frames: Both::default() };
        for side in Side::BOTH {
            for &(frame, function, line) in functions.of(side) {
                let line = (!moved.contains(&function)).then_some(line);
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

    /// Returns the place of a frame in one recording; `None` if the frame was not among those used.
    pub(crate) fn place(&self, side: Side, frame: FrameId) -> Option<PlaceId> {
        self.of_frames.of(side).get(&frame).copied()
    }

    pub(crate) fn get(&self, place: PlaceId) -> &MatchedPlace {
        &self.places[place.0]
    }
}

/// A function in both recordings, with file and name as numbered by [`Texts`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Function {
    file: usize,
    name: usize,
}

/// Whether at least one user file is in both recordings.
fn share_a_file(coded: Both<Coded<'_>>) -> bool {
    let files = coded.map(|&Coded { trace, frames }| {
        let users = trace.frames.iter().filter(|&(id, _)| frames.code(id) == Code::User);
        let files: HashSet<StringId> = users.map(|(_, f)| f.filename).collect();
        files.into_iter().map(|file| trace.strings.get(file)).collect::<HashSet<&str>>()
    });
    !files.a.is_disjoint(&files.b)
}

/// The data that decides whether files of two recordings match.
struct File<'t> {
    path: &'t str,
    /// The path from the directory of installed packages; `None` for user files.
    in_packages: Option<String>,
    /// The functions and lines of this file in the recording.
    lines: HashSet<(usize, u32)>,
    functions: HashSet<usize>,
}

/// Returns the files of the given functions, by number.
fn files<'t>(coded: Coded<'t>, functions: &[(FrameId, Function, u32)]) -> BTreeMap<usize, File<'t>> {
    let Coded { trace, frames } = coded;
    let mut files = BTreeMap::new();
    for &(id, function, line) in functions.iter().filter(|&&(id, ..)| frames.code(id) != Code::Native) {
        let of_frame = || File {
            path: trace.strings.get(trace.frames.get(id).filename),
            in_packages: (frames.code(id) == Code::Library).then(|| frames.short_path(trace, id)),
            lines: HashSet::new(),
            functions: HashSet::new(),
        };
        let file = files.entry(function.file).or_insert_with(of_frame);
        file.lines.insert((function.name, line));
        file.functions.insert(function.name);
    }
    files
}

/// Matches files that only B has with files that only A has, and returns the number in A by the number in B. Matching files
/// ("twins") share a function and the end of their paths. The longest common ends are matched first; an end that several files of
/// one recording share decides nothing.
///
/// - Two user files must also share the last directory. In two checkouts the file name is enough. In one checkout it is enough if
///   one file is a copy of the other: they share half of their lines.
/// - A file of an installed package and one of a checkout must share the whole path within the package.
/// - A name that very many files share decides nothing: [`MOST_PAIRS`].
fn twins(files: &Both<BTreeMap<usize, File<'_>>>, one_checkout: bool) -> HashMap<usize, usize> {
    let alone = |side: Side| {
        let others = files.of(side.other());
        let mut by_name: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (&number, file) in files.of(side).iter().filter(|(number, _)| !others.contains_key(number)) {
            by_name.entry(parts(file.path).next().unwrap_or_default()).or_default().push(number);
        }
        by_name
    };
    let alone = Both { a: alone(Side::A), b: alone(Side::B) };
    let mut pairs: Vec<(usize, usize, usize)> = Vec::new();
    for (name, of_a) in &alone.a {
        let of_b = alone.b.get(name).map_or(&[][..], Vec::as_slice);
        if of_a.len() * of_b.len() > MOST_PAIRS {
            continue;
        }
        for (&a, &b) in of_a.iter().flat_map(|a| of_b.iter().map(move |b| (a, b))) {
            let (of_a, of_b) = (&files.a[&a], &files.b[&b]);
            let length = common_end(of_a.path, of_b.path);
            if are_twins(of_a, of_b, length, one_checkout) {
                pairs.push((length, a, b));
            }
        }
    }
    pairs.sort_unstable_by_key(|&(length, a, b)| (Reverse(length), a, b));
    let (mut twins, mut matched) = (HashMap::new(), Both { a: HashSet::new(), b: HashSet::new() });
    for same_length in pairs.chunk_by(|x, y| x.0 == y.0) {
        let is_left =
            |&&(_, a, b): &&(usize, usize, usize)| !matched.a.contains(&a) && !matched.b.contains(&b);
        let open: Vec<_> = same_length.iter().filter(is_left).copied().collect();
        let mut count: Both<HashMap<usize, usize>> = Both::default();
        for &(_, a, b) in &open {
            *count.a.entry(a).or_default() += 1;
            *count.b.entry(b).or_default() += 1;
        }
        for (_, a, b) in open {
            if count.a[&a] == 1 && count.b[&b] == 1 {
                twins.insert(b, a);
            }
            matched.a.insert(a);
            matched.b.insert(b);
        }
    }
    twins
}

/// The largest number of pairs of files with the same name that are compared.
const MOST_PAIRS: usize = 1 << 14;

/// The parts of a path, last one first.
fn parts(path: &str) -> impl Iterator<Item = &str> {
    path.rsplit(['/', '\\'])
}

/// Returns the number of path parts that the paths share at their ends.
fn common_end(a: &str, b: &str) -> usize {
    parts(a).zip(parts(b)).take_while(|(a, b)| a == b).count()
}

fn are_twins(a: &File<'_>, b: &File<'_>, common: usize, one_checkout: bool) -> bool {
    count_steps(a.lines.len().min(b.lines.len()));
    let shares_function = !a.functions.is_disjoint(&b.functions);
    let is_copy = || a.lines.intersection(&b.lines).count() * 2 >= a.lines.len().min(b.lines.len());
    let ends_alike = match (&a.in_packages, &b.in_packages) {
        (None, None) => common >= 2 || (common == 1 && (!one_checkout || is_copy())),
        (Some(path), None) | (None, Some(path)) => common >= 2 && common >= path.split('/').count(),
        (Some(_), Some(_)) => false,
    };
    ends_alike && shares_function
}

/// Numbers for the texts of two recordings. Many lines share few texts, and texts may be long.
struct Texts {
    whole_paths: bool,
    numbers: HashMap<Arc<str>, usize>,
    all: Vec<Arc<str>>,
}

impl Texts {
    /// Returns the function and the line of each frame, each frame once.
    fn functions(&mut self, coded: Coded<'_>, used: &[FrameId]) -> Vec<(FrameId, Function, u32)> {
        let Coded { trace, frames } = coded;
        let mut known: HashMap<(StringId, Option<Code>), usize> = HashMap::new();
        let mut seen: HashSet<FrameId> = HashSet::new();
        let mut functions = Vec::new();
        for &id in used.iter().filter(|&&id| seen.insert(id)) {
            let frame = trace.frames.get(id);
            // The short path depends on the origin of the code.
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
