//! The profile with symbols, and its output.

use std::collections::BTreeSet;
use std::io::{self, Write};

use hashbrown::HashMap;
use serde::Serialize;

use super::profile::{Counts, Lane, Profile};
use crate::stacks::{NO_LINES, SourceFrame, StackStore, Symbols};
use vramscope_basics::units::cupy_bytes;

/// Options of a report.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct LineReportOptions {
    /// Maximum number of levels, including the root; 0 is no limit.
    pub max_depth: usize,
    /// Number of frames kept per stack, counted from the allocating line; 0 keeps all. Stacks with the same kept frames are counted
    /// together.
    pub depth_from_leaf: usize,
    /// Sort key of lines with the same caller, highest first; `None` keeps the order of their first allocations.
    pub sort: Option<Measure>,
    /// Minimum bytes of a line (by `sort`, otherwise used bytes). Smaller lines are left out, together with their callees.
    pub threshold: u64,
    /// Only allocations of this thread, by its number in [`LineReport::threads`]; `None` for all threads.
    pub thread: Option<u64>,
    /// Only allocations on the device with this id; `None` for all devices.
    pub device_id: Option<i32>,
    /// Whether to show frames of the standard library and of the runtime that calls `main`.
    pub std_frames: bool,
}

/// A measure of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Total bytes allocated from the pool.
    Used,
    /// Bytes that the pool allocated from the device for them.
    Acquired,
    /// Live bytes.
    Live,
    /// Peak of live bytes.
    Peak,
    /// Freed bytes.
    Freed,
}

/// Memory by source line: a tree with the root first and parents before their children.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LineReport {
    /// The lines. The first is the root.
    pub nodes: Vec<LineNode>,
    /// The numbers of the threads that allocated, as in [`FunctionCall::thread`](crate::hooks::function::FunctionCall::thread). 0 stands
    /// for all threads after the first 256, which are counted together.
    pub threads: Vec<u64>,
    /// The ids of the devices with allocations.
    pub device_ids: Vec<i32>,
}

/// One line, including everything it called. All numbers are bytes after rounding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LineNode {
    /// Index of the caller's node in the report; 0 for the root itself.
    pub parent: usize,
    /// Levels below the root, which has depth 0.
    pub depth: usize,
    /// Path of the source file; empty for the root.
    pub filename: String,
    /// Line number in the file, from 1; 0 if unknown.
    pub line: u32,
    /// Function name; `_root` for the root.
    pub name: String,
    /// Total bytes allocated from the pool.
    pub used_bytes: u64,
    /// Bytes that the pool allocated from the device for them.
    pub acquired_bytes: u64,
    /// Live bytes.
    pub live_bytes: u64,
    /// Peak of live bytes.
    pub peak_bytes: u64,
    /// False if the peak is only an upper bound, because the line has several calls with separate peaks.
    pub peak_is_exact: bool,
    /// Freed bytes.
    pub freed_bytes: u64,
}

impl LineNode {
    /// Returns one measure, in bytes.
    pub fn bytes(&self, measure: Measure) -> u64 {
        match measure {
            Measure::Used => self.used_bytes,
            Measure::Acquired => self.acquired_bytes,
            Measure::Live => self.live_bytes,
            Measure::Peak => self.peak_bytes,
            Measure::Freed => self.freed_bytes,
        }
    }

    fn new(parent: usize, depth: usize, frame: &SourceFrame) -> Self {
        Self {
            parent,
            depth,
            filename: frame.filename.to_string(),
            line: frame.line,
            name: frame.name.to_string(),
            used_bytes: 0,
            acquired_bytes: 0,
            live_bytes: 0,
            peak_bytes: 0,
            peak_is_exact: true,
            freed_bytes: 0,
        }
    }

    fn add(&mut self, counts: &Counts, exact: bool) {
        let first = self.used_bytes == 0 && self.acquired_bytes == 0;
        self.used_bytes += counts.used;
        self.acquired_bytes += counts.acquired;
        self.live_bytes += counts.live;
        self.peak_bytes += counts.peak;
        self.freed_bytes += counts.freed;
        self.peak_is_exact &= exact && (first || counts.peak == 0);
    }
}

/// A tree that grows as frames are added.
struct Growing {
    nodes: Vec<LineNode>,
    children: HashMap<(usize, SourceFrame), usize>,
}

impl Growing {
    fn child(&mut self, parent: usize, frame: &SourceFrame) -> usize {
        let nodes = &mut self.nodes;
        *self.children.entry((parent, frame.clone())).or_insert_with(|| {
            let depth = nodes[parent].depth + 1;
            nodes.push(LineNode::new(parent, depth, frame));
            nodes.len() - 1
        })
    }
}

impl LineReport {
    pub(super) fn of(profile: &Profile, store: &StackStore, options: &LineReportOptions) -> Self {
        let wanted = |lane: Lane| {
            options.thread.is_none_or(|t| t == lane.thread)
                && options.device_id.is_none_or(|d| d == lane.device_id)
        };
        let (tree, exact) = profile.tree(wanted);
        let mut symbols = Symbols::default();
        // The shown frames of each node, outermost first.
        let frames: Vec<Vec<SourceFrame>> = profile
            .nodes
            .iter()
            .map(|node| {
                let shown = |f: &&SourceFrame| {
                    node.site.is_supplied() || !f.is_own() && (options.std_frames || !f.is_runtime())
                };
                let frames = symbols.frames(store, node.site);
                frames.iter().rev().filter(shown).cloned().collect()
            })
            .collect();

        let root = LineNode::new(0, 0, &SourceFrame::new("", 0, "_root"));
        let mut growing = Growing { nodes: vec![root], children: HashMap::new() };
        if let Some(counts) = tree.nodes.first() {
            growing.nodes[0].add(counts, exact);
        }
        if options.depth_from_leaf == 0 {
            // The report node of each profile node.
            let mut places = vec![0; profile.nodes.len()];
            for (i, node) in profile.nodes.iter().enumerate().skip(1) {
                let counts = tree.nodes[i];
                let mut place = places[node.parent as usize];
                for frame in frames[i].iter().filter(|_| counts != Counts::default()) {
                    place = growing.child(place, frame);
                    growing.nodes[place].add(&counts, exact);
                }
                places[i] = place;
            }
        } else {
            for (i, counts) in tree.stacks.iter().enumerate().filter(|(_, c)| **c != Counts::default()) {
                let path: Vec<&SourceFrame> =
                    profile.path(i).iter().flat_map(|&node| &frames[node as usize]).collect();
                let mut place = 0;
                for frame in &path[path.len().saturating_sub(options.depth_from_leaf)..] {
                    place = growing.child(place, frame);
                    growing.nodes[place].add(counts, exact);
                }
            }
        }
        let lanes: BTreeSet<Lane> = profile.lanes.iter().map(|(lane, _)| *lane).collect();
        Self {
            nodes: arrange(growing.nodes, options),
            threads: lanes.iter().map(|l| l.thread).collect::<BTreeSet<_>>().into_iter().collect(),
            device_ids: lanes.iter().map(|l| l.device_id).collect::<BTreeSet<_>>().into_iter().collect(),
        }
    }

    /// Whether there are frames, but none has a line number: the program was built without debug information.
    pub fn lacks_lines(&self) -> bool {
        self.nodes.len() > 1 && self.nodes.iter().all(|node| node.line == 0)
    }

    /// Writes CuPy's report: `{filename}:{line}:{name} ({used}, {acquired})`, indented by two spaces per level.
    ///
    /// # Errors
    /// Writing to `file` fails.
    pub fn write_tree(&self, file: &mut dyn Write) -> io::Result<()> {
        for node in &self.nodes {
            let (used, acquired) = (cupy_bytes(node.used_bytes), cupy_bytes(node.acquired_bytes));
            self.write_place(file, node)?;
            writeln!(file, " ({used}, {acquired})")?;
        }
        Ok(())
    }

    /// Writes CuPy's report, as [`write_tree`](Self::write_tree). If no frame has a line number, a last line explains how to build the
    /// program.
    ///
    /// # Errors
    /// Writing to `file` fails.
    pub fn write_used_and_acquired(&self, file: &mut dyn Write) -> io::Result<()> {
        self.write_tree(file)?;
        self.write_note(file)
    }

    /// Writes the same tree with all five measures, and the same last line. `<=` marks a peak that is an upper bound.
    ///
    /// # Errors
    /// Writing to `file` fails.
    pub fn write_full(&self, file: &mut dyn Write) -> io::Result<()> {
        for node in &self.nodes {
            self.write_place(file, node)?;
            let bound = if node.peak_is_exact { "" } else { "<= " };
            writeln!(
                file,
                " (used {}, acquired {}, live {}, peak {bound}{}, freed {})",
                cupy_bytes(node.used_bytes),
                cupy_bytes(node.acquired_bytes),
                cupy_bytes(node.live_bytes),
                cupy_bytes(node.peak_bytes),
                cupy_bytes(node.freed_bytes),
            )?;
        }
        self.write_note(file)
    }

    fn write_note(&self, file: &mut dyn Write) -> io::Result<()> {
        if self.lacks_lines() { writeln!(file, "{NO_LINES}") } else { Ok(()) }
    }

    fn write_place(&self, file: &mut dyn Write, node: &LineNode) -> io::Result<()> {
        match node.depth {
            0 => write!(file, "{}", node.name),
            depth => {
                write!(file, "{:1$}{2}:{3}:{4}", "", 2 * depth, node.filename, node.line, node.name)
            }
        }
    }

    /// Writes the report as JSON: `nodes`, `threads` and `device_ids`. Keys of a node are the field names of [`LineNode`].
    ///
    /// # Errors
    /// Writing to `file` fails.
    pub fn write_json(&self, file: &mut dyn Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *file, self)?;
        writeln!(file)
    }

    /// Draws a flame graph of one measure as SVG (feature `flamegraph`).
    ///
    /// # Errors
    /// Writing to `file` fails, or there is nothing to draw.
    #[cfg(feature = "flamegraph")]
    pub fn write_flamegraph(&self, measure: Measure, file: &mut dyn Write) -> io::Result<()> {
        // Bytes of a line without its callees. They saturate at 0, because the callees' peaks may add up to more than the caller's peak.
        let mut own: Vec<u64> = self.nodes.iter().map(|n| n.bytes(measure)).collect();
        for node in self.nodes.iter().skip(1) {
            own[node.parent] = own[node.parent].saturating_sub(node.bytes(measure));
        }
        let mut paths: Vec<String> = Vec::with_capacity(self.nodes.len());
        for (i, node) in self.nodes.iter().enumerate() {
            let label = format!("{}:{}:{}", node.filename, node.line, node.name).replace(';', ",");
            paths.push(match i {
                0 => node.name.clone(),
                _ => format!("{};{label}", paths[node.parent]),
            });
        }
        let lines: Vec<String> = paths
            .iter()
            .zip(&own)
            .filter(|(_, own)| **own > 0)
            .map(|(path, own)| format!("{path} {own}"))
            .collect();
        let mut options = inferno::flamegraph::Options::default();
        options.title = match measure {
            Measure::Used => "Used memory",
            Measure::Acquired => "Acquired memory",
            Measure::Live => "Live memory",
            Measure::Peak => "Peak memory of each line",
            Measure::Freed => "Freed memory",
        }
        .to_owned();
        options.count_name = "bytes".to_owned();
        inferno::flamegraph::from_lines(&mut options, lines.iter().map(String::as_str), file)
            .map_err(io::Error::other)
    }
}

/// Sorts the lines and removes lines that the options exclude. Parents stay before their children.
fn arrange(nodes: Vec<LineNode>, options: &LineReportOptions) -> Vec<LineNode> {
    let measure = options.sort.unwrap_or(Measure::Used);
    let mut children = vec![Vec::new(); nodes.len()];
    for (i, node) in nodes.iter().enumerate().skip(1) {
        let deep_enough = options.max_depth == 0 || node.depth < options.max_depth;
        if deep_enough && node.bytes(measure) >= options.threshold {
            children[node.parent].push(i);
        }
    }
    if options.sort.is_some() {
        for siblings in &mut children {
            siblings.sort_by_key(|&i| std::cmp::Reverse(nodes[i].bytes(measure)));
        }
    }
    let mut out: Vec<LineNode> = Vec::with_capacity(nodes.len());
    let mut next = vec![(0, 0)];
    while let Some((i, parent)) = next.pop() {
        let place = out.len();
        out.push(LineNode { parent, ..nodes[i].clone() });
        next.extend(children[i].iter().rev().map(|&child| (child, place)));
    }
    out
}
