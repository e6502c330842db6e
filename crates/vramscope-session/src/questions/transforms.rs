//! Transforms of the call tree, prepared for the frames of a trace.

use std::collections::{BTreeSet, HashMap};

use serde::Deserialize;
use vramscope_analysis::{
    Calls, CallsOf, Cancel, Code, Frames, NO_GROUP, NodeKind, NodeSet, Origin, Paths, Transform, Transforms,
};
use vramscope_report::Names;
use vramscope_trace::{FrameId, Trace};

use crate::SessionError;
use crate::questions::bits::Bits;

/// Frames that a transform is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(tag = "of", rename_all = "snake_case")]
pub enum FramesOf {
    /// The frames of a function, by its short name and the short path of its file. The path is empty for compiled code.
    Function { name: String, file: String },
    /// The frames of a file, by its short path.
    File { name: String },
    /// The frames of a library.
    Library { name: String },
}

/// A transform of the call tree. Transforms that keep only some allocations are also a condition of a search.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "CallTransform"))]
#[serde(tag = "does", rename_all = "snake_case")]
pub enum CallTransform {
    /// Keeps the allocations through these frames. The tree begins at the outermost of them.
    Focus { frames: FramesOf },
    /// Keeps the allocations of a node of the tree of these calls, by the texts of its path from the root. The tree begins at it.
    FocusPath {
        #[cfg_attr(test, ts(type = "CallsOf"))]
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        calls: CallsOf,
        inverted: bool,
        path: Vec<String>,
    },
    /// Keeps the allocations that have none of these frames.
    Drop { frames: FramesOf },
    /// Removes these frames from the tree. Their bytes go to their callers.
    Merge { frames: FramesOf },
    /// Shows adjacent frames of these as one.
    Collapse { frames: FramesOf },
    /// Shows adjacent frames of a library as one, for all libraries but the expanded ones.
    CollapseLibraries { expanded: Vec<String> },
    /// Shows everything from the outermost to the innermost of these frames as one.
    CollapseRecursion { frames: FramesOf },
}

/// The maximum number of transforms. Each stack is checked against each.
const MOST_TRANSFORMS: usize = 64;

/// The maximum number of steps in the path of a transform: that of a path in the tree, with the node above it.
const MOST_STEPS: usize = 1001;

/// The number of stacks between two checks for cancellation.
const STACKS_AT_ONCE: usize = 1 << 10;

/// The kinds of nodes that are not frames.
pub(crate) const WORDS: [NodeKind; 4] =
    [NodeKind::NoStack, NodeKind::BeforeRecording, NodeKind::BeforeRecordingFreed, NodeKind::Merged];

/// Transforms, and the names of the groups of frames that they collapse.
#[derive(Debug, Default)]
pub(crate) struct Prepared {
    pub(crate) transforms: Transforms,
    pub(crate) groups: Vec<String>,
}

/// The name of the library of compiled or Python code.
pub(crate) fn library(names: &Names<'_>, frame: FrameId) -> Option<String> {
    names.frames.library(names.trace, frame)
}

/// The texts by which transforms know frames, each stored once, because a file may give one long name to any number of frames.
struct Texts<'n> {
    names: Names<'n>,
    numbers: HashMap<String, u32>,
    /// For each frame the numbers of its function, its file and its library. Compiled code has no file, and the user's code no library.
    frames: Vec<(u32, Option<u32>, Option<u32>)>,
}

impl<'n> Texts<'n> {
    fn of(names: Names<'n>) -> Self {
        let mut numbers = HashMap::new();
        let mut number = |text: String| {
            let next = numbers.len() as u32;
            *numbers.entry(text).or_insert(next)
        };
        let frames = names.trace.frames.iter().map(|(id, _)| {
            let file = (names.frames.code(id) != Code::Native).then(|| names.file(id).into());
            let library = library(&names, id);
            (number(names.function(id).into()), file.map(&mut number), library.map(&mut number))
        });
        let frames = frames.collect();
        Self { names, numbers, frames }
    }

    /// For each frame, whether it is one of these.
    fn those(&self, of: &FramesOf) -> Vec<bool> {
        let number = |text: &str| self.numbers.get(text).copied();
        let (function, file, library) = match of {
            FramesOf::Function { name, file } if file.is_empty() => (number(name), Some(None), None),
            FramesOf::Function { name, file } => (number(name), number(file).map(Some), None),
            FramesOf::File { name } => (None, number(name).map(Some), None),
            FramesOf::Library { name } => (None, None, number(name)),
        };
        let is_of = |&(of_function, of_file, of_library): &(u32, Option<u32>, Option<u32>)| match of {
            FramesOf::Function { .. } => Some(of_function) == function && Some(of_file) == file,
            FramesOf::File { .. } => file == Some(of_file) && of_file.is_some(),
            FramesOf::Library { .. } => library.is_some() && of_library == library,
        };
        self.frames.iter().map(is_of).collect()
    }

    /// For each step of a path, the frames with its text.
    fn steps(&self, path: &[String]) -> Vec<Vec<NodeKind>> {
        let mut at: HashMap<&str, Vec<usize>> = HashMap::new();
        for (number, step) in path.iter().enumerate() {
            at.entry(step).or_default().push(number);
        }
        let mut steps = vec![Vec::new(); path.len()];
        for (id, frame) in self.names.trace.frames.iter() {
            let function = String::from(self.names.function(id));
            let text = match self.names.frames.code(id) {
                Code::Native => function,
                _ => format!("{}:{} {function}", self.names.file(id), frame.line),
            };
            for &number in at.get(text.as_str()).into_iter().flatten() {
                steps[number].push(NodeKind::Frame(id));
            }
        }
        steps
    }
}

/// The name of a group of collapsed frames.
fn name_of(frames: &FramesOf) -> String {
    match frames {
        FramesOf::Function { name, file } if file.is_empty() => name.clone(),
        FramesOf::Function { name, file } => format!("{name} ({file})"),
        FramesOf::File { name } | FramesOf::Library { name } => name.clone(),
    }
}

/// Builds [`Prepared`].
struct Builder<'n> {
    texts: Texts<'n>,
    groups: Vec<String>,
    /// The frames of each group.
    members: Vec<Vec<usize>>,
    numbers: HashMap<FramesOf, u32>,
}

impl Builder<'_> {
    /// The frames, and the groups that have only such frames.
    fn set(&self, frames: &FramesOf) -> NodeSet {
        let has = self.texts.those(frames);
        let groups = self.members.iter().map(|of| !of.is_empty() && of.iter().all(|&frame| has[frame]));
        NodeSet { groups: groups.collect(), frames: has }
    }

    /// The number of the group of these frames.
    fn group(&mut self, frames: &FramesOf, has: &[bool]) -> u32 {
        *self.numbers.entry(frames.clone()).or_insert_with(|| {
            self.groups.push(name_of(frames));
            self.members.push((0..has.len()).filter(|&at| has[at]).collect());
            (self.groups.len() - 1) as u32
        })
    }

    fn collapse(&mut self, frames: &FramesOf) -> Vec<u32> {
        let has = self.texts.those(frames);
        let group = self.group(frames, &has);
        has.into_iter().map(|has| if has { group } else { NO_GROUP }).collect()
    }

    fn collapse_libraries(&mut self, expanded: &[String]) -> Vec<u32> {
        let texts = self.texts.numbers.iter();
        let libraries: HashMap<u32, &String> = texts.map(|(text, &number)| (number, text)).collect();
        let used: BTreeSet<u32> = self.texts.frames.iter().filter_map(|&(_, _, library)| library).collect();
        let names: Vec<(u32, String)> = used.into_iter().map(|of| (of, libraries[&of].clone())).collect();
        let mut members: HashMap<u32, Vec<usize>> = HashMap::new();
        for (at, &(_, _, library)) in self.texts.frames.iter().enumerate() {
            if let Some(library) = library {
                members.entry(library).or_default().push(at);
            }
        }
        let mut groups = vec![NO_GROUP; self.texts.frames.len()];
        for (library, name) in names.into_iter().filter(|(_, name)| !expanded.contains(name)) {
            let of = members.remove(&library).unwrap_or_default();
            let group = *self.numbers.entry(FramesOf::Library { name: name.clone() }).or_insert_with(|| {
                self.groups.push(name);
                self.members.push(of.clone());
                (self.groups.len() - 1) as u32
            });
            of.into_iter().for_each(|at| groups[at] = group);
        }
        groups
    }

    /// For each step of a path, the nodes with its text.
    fn steps(&self, path: &[String]) -> Vec<Vec<NodeKind>> {
        let groups = self
            .groups
            .iter()
            .enumerate()
            .map(|(group, name)| (NodeKind::Collapsed(group as u32), name.clone()));
        let words = WORDS.into_iter().map(|kind| (kind, String::from(self.texts.names.node(kind))));
        let others: Vec<(NodeKind, String)> = words.chain(groups).collect();
        let mut steps = self.texts.steps(path);
        for (step, text) in steps.iter_mut().zip(path) {
            step.extend(others.iter().filter(|(_, other)| other == text).map(|&(kind, _)| kind));
        }
        steps
    }

    fn transform(&mut self, transform: &CallTransform) -> Result<Transform, SessionError> {
        Ok(match transform {
            CallTransform::Focus { frames } => Transform::Focus(self.set(frames)),
            CallTransform::Drop { frames } => Transform::Drop(self.set(frames)),
            CallTransform::Merge { frames } => Transform::Merge(self.set(frames)),
            CallTransform::Collapse { frames } => Transform::Collapse(self.collapse(frames)),
            CallTransform::CollapseLibraries { expanded } => {
                Transform::Collapse(self.collapse_libraries(expanded))
            }
            CallTransform::CollapseRecursion { frames } => {
                let set = self.set(frames);
                let group = self.group(frames, &set.frames);
                Transform::CollapseRecursion(set, group)
            }
            CallTransform::FocusPath { calls, inverted, path } => {
                if path.is_empty() || path.len() > MOST_STEPS {
                    let why = format!("the path of a transform has 1 to {MOST_STEPS} steps");
                    return Err(SessionError::Argument(why));
                }
                Transform::FocusPath {
                    calls: Calls { of: *calls, inverted: *inverted },
                    steps: self.steps(path),
                }
            }
        })
    }
}

impl Prepared {
    /// # Errors
    /// Fails if there are too many transforms, or if one has an invalid path.
    pub(crate) fn of(
        trace: &Trace,
        frames: &Frames,
        transforms: &[CallTransform],
    ) -> Result<Self, SessionError> {
        if transforms.is_empty() {
            return Ok(Self::default());
        }
        if transforms.len() > MOST_TRANSFORMS {
            return Err(SessionError::Argument(format!(
                "a call tree has at most {MOST_TRANSFORMS} transforms"
            )));
        }
        let texts = Texts::of(Names { trace, frames });
        let (groups, members, numbers) = (Vec::new(), Vec::new(), HashMap::new());
        let mut builder = Builder { texts, groups, members, numbers };
        let transforms = transforms.iter().map(|one| builder.transform(one)).collect::<Result<_, _>>()?;
        Ok(Self { transforms: Transforms(transforms), groups: builder.groups })
    }

    /// The text of a node that is not a frame.
    pub(crate) fn word(&self, names: &Names<'_>, kind: NodeKind) -> String {
        match kind {
            NodeKind::Collapsed(group) => self.groups.get(group as usize).cloned().unwrap_or_default(),
            kind => names.node(kind).into(),
        }
    }

    /// For each origin, in the order of [`ORIGINS`], the stacks that the transforms keep. The number after the last stack stands for
    /// allocations without one.
    pub(crate) fn kept(
        &self,
        trace: &Trace,
        frames: &Frames,
        cancel: &Cancel,
    ) -> Result<[Bits; ORIGINS.len()], SessionError> {
        // The tree's own calls do not matter here: a path of the transforms has its calls.
        let calls = Calls { of: CallsOf::Own, inverted: false };
        let paths = Paths { trace, frames, calls, transforms: &self.transforms };
        let kept = |origin| {
            let stacks = trace.stacks.iter().map(|(id, _)| Some(id)).chain([None]);
            let mut kept = Vec::new();
            for (number, stack) in stacks.enumerate() {
                if number.is_multiple_of(STACKS_AT_ONCE) && cancel.is_cancelled() {
                    return Err(SessionError::Cancelled);
                }
                if paths.keeps(Some(origin), stack) {
                    kept.push(number);
                }
            }
            Ok(Bits::of(kept))
        };
        let [a, b, c] = ORIGINS.map(kept);
        Ok([a?, b?, c?])
    }
}

/// The origins of allocations.
pub(crate) const ORIGINS: [Origin; 3] = [Origin::Recorded, Origin::EndState, Origin::FreeOnly];
