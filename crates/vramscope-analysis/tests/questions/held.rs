//! Live memory at two moments, in groups and as a call tree.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Value, json};
use vramscope_analysis::{
    Both, By, Calls, CallsOf, Cancel, ComparedNode, Frames, GroupPeakChange, GroupsInInterval, History,
    Holder, HolderKey, HoldersOf, Interval, Moment, NO_GROUP, NoProperties, NodeKind, NodeSet, Paths, Side,
    Transform, Transforms, changed_holders, compared_call_tree, group_peaks_of_both, holders_at,
    holders_of_both,
};
use vramscope_trace::{StackId, Trace};

use crate::{defaults, event, recording};

/// An allocation of this size by these lines of these functions, innermost first.
fn by(address: u64, size: u64, stack: &[(&str, u32)]) -> Value {
    let mut e = event("alloc", address << 30, size);
    let frame =
        |&(name, line): &(&str, u32)| json!({"name": name, "filename": "/home/user/train.py", "line": line});
    e["frames"] = stack.iter().map(frame).collect();
    e
}

fn freed(address: u64, size: u64) -> Value {
    event("free_completed", address << 30, size)
}

struct Asked {
    trace: Arc<Trace>,
    frames: Frames,
    history: History,
}

impl Asked {
    fn of(events: Vec<Value>) -> Self {
        let trace = recording(events, Vec::new(), defaults());
        Self { frames: Frames::of(&trace), history: History::of(&trace, 0), trace }
    }

    fn holders(&self, event: usize, by: By) -> Vec<Holder> {
        holders_at(&self.history, &self.frames, Moment::after(event), by)
    }

    fn of_both(&self, event: usize, by: By) -> HoldersOf<'_> {
        HoldersOf { trace: &self.trace, frames: &self.frames, holders: self.holders(event, by) }
    }

    fn within(&self, interval: Interval) -> GroupsInInterval<'_, NoProperties> {
        GroupsInInterval { history: &self.history, frames: &self.frames, known: &NoProperties, interval }
    }

    fn tree(&self, calls: Calls, at: Both<&[Holder]>, found: &[Holder]) -> Vec<ComparedNode> {
        let transforms = Transforms::default();
        let paths = Paths { trace: &self.trace, frames: &self.frames, calls, transforms: &transforms };
        compared_call_tree(paths, at, found)
    }

    fn line(&self, kind: NodeKind) -> u32 {
        match kind {
            NodeKind::Frame(id) => self.trace.frames.get(id).line,
            _ => 0,
        }
    }
}

const MAIN: (&str, u32) = ("main", 1);

fn two_moments() -> Asked {
    Asked::of(vec![
        by(1, 60 << 10, &[("forward", 42), MAIN]),
        by(2, 100 << 10, &[("backward", 50), MAIN]),
        by(3, 5 << 10, &[("load", 7)]),
        freed(2, 100 << 10),
        freed(3, 5 << 10),
        by(4, 40 << 10, &[("forward", 42), MAIN]),
        by(5, 10 << 10, &[MAIN]),
    ])
}

#[test]
fn changes_sum_to_the_difference_and_keep_the_marks_of_both_moments() {
    let asked = two_moments();
    let at = || Both { a: asked.holders(2, By::Line), b: asked.holders(6, By::Line) };
    let changes = changed_holders(at(), &|side, holder| side == Side::A && holder.bytes == 100 << 10);
    let told: Vec<_> =
        changes.iter().map(|c| (c.held().a.bytes >> 10, c.held().b.bytes >> 10, c.is_marked)).collect();
    assert_eq!(told, [(60, 100, false), (0, 10, false), (5, 0, false), (100, 0, true)]);
    assert_eq!(changes[0].held().map(|held| held.count), Both { a: 1, b: 2 });
    let sides: Vec<Side> = changes.iter().map(|c| c.side()).collect();
    assert_eq!(sides, [Side::B, Side::B, Side::A, Side::A]);
    // Compared with nothing, the changes are the groups themselves.
    let alone = changed_holders(Both { a: Vec::new(), ..at() }, &|_, _| false);
    let alone: Vec<Holder> = alone.into_iter().filter_map(|change| change.holders.b).collect();
    assert_eq!(alone, at().b);
}

#[test]
fn lines_moved_by_an_edit_are_one_group_in_two_recordings() {
    let a = Asked::of(vec![by(1, 1 << 20, &[("forward", 42), MAIN]), by(2, 512, &[("load", 7)])]);
    let b = Asked::of(vec![by(1, 3 << 20, &[("forward", 44), MAIN]), by(2, 2048, &[MAIN])]);
    for (by, groups) in
        [(By::Line, 3), (By::Stack, 3), (By::Function, 3), (By::File, 1), (By::Module, 1), (By::Stream, 1)]
    {
        let changes = holders_of_both(Both { a: a.of_both(1, by), b: b.of_both(1, by) }, &|_, _| true);
        assert_eq!(changes.len(), groups, "{by:?}");
        let sum = |side: Side| changes.iter().map(|c| c.held().of(side).bytes).sum::<u64>();
        assert_eq!((sum(Side::A), sum(Side::B)), ((1 << 20) + 512, (3 << 20) + 2048), "{by:?}");
        let differences: Vec<i64> =
            changes.iter().map(|c| c.held().map(|held| held.bytes).difference()).collect();
        assert!(differences.is_sorted_by(|x, y| x >= y), "{by:?}");
        assert!(changes.iter().all(|c| c.is_marked));
        assert_eq!(changes[0].is_function, by == By::Line);
    }
}

/// Returns each node as (depth, line, bytes).
fn told(asked: &Asked, nodes: &[ComparedNode]) -> Vec<(usize, u32, u64, u64, u64)> {
    let mut depths: Vec<usize> = Vec::new();
    let row = |node: &ComparedNode| {
        let depth = node.parent.map_or(0, |parent| depths[parent] + 1);
        depths.push(depth);
        (depth, asked.line(node.kind), node.held.a.bytes >> 10, node.held.b.bytes >> 10, node.weight >> 10)
    };
    nodes.iter().map(row).collect()
}

#[test]
fn a_tree_of_two_moments_has_freed_nodes_with_the_larger_bytes_of_both() {
    let asked = two_moments();
    let Both { a, b } = Both { a: asked.holders(2, By::Stack), b: asked.holders(6, By::Stack) };
    let tree = |of, found: &[Holder]| {
        let calls = Calls { of, inverted: false };
        asked.tree(calls, Both { a: &a, b: &b }, found)
    };
    let forward: Vec<Holder> = b.iter().filter(|h| h.count == 2).cloned().collect();
    let nodes = tree(CallsOf::Own, &forward);
    let rows = [(0, 1, 160, 110, 210), (1, 42, 60, 100, 100), (1, 50, 100, 0, 100), (0, 7, 5, 0, 5)];
    assert_eq!(told(&asked, &nodes), rows);
    assert_eq!(nodes.iter().map(|node| node.found >> 10).collect::<Vec<_>>(), [100, 100, 0, 0]);
    assert_eq!(tree(CallsOf::All, &forward), nodes);
    let inverted = Calls { of: CallsOf::Own, inverted: true };
    let of = |at, found: &[Holder]| asked.tree(inverted, at, found);
    let nodes = of(Both { a: &a, b: &b }, &forward);
    // Lines that allocate come first; below each is the line that called it.
    let rows = [
        (0, 42, 60, 100, 100),
        (1, 1, 60, 100, 100),
        (0, 50, 100, 0, 100),
        (1, 1, 100, 0, 100),
        (0, 1, 0, 10, 10),
        (0, 7, 5, 0, 5),
    ];
    assert_eq!(told(&asked, &nodes), rows);
    assert!(of(Both { a: &[], b: &[] }, &[]).is_empty());
}

#[test]
fn a_stack_of_any_depth_makes_a_tree_that_is_bounded() {
    let deep: Vec<(&str, u32)> = (0..200_000).map(|line| ("recurse", line)).collect();
    let asked = Asked::of(vec![by(1, 1 << 20, &deep), by(2, 512, &[])]);
    let holders = asked.holders(1, By::Stack);
    for of in [CallsOf::Own, CallsOf::Python, CallsOf::All] {
        let calls = Calls { of, inverted: false };
        let at = Both { a: &[][..], b: &holders };
        let nodes = asked.tree(calls, at, &holders);
        assert_eq!(nodes.len(), 1001);
        assert!(nodes.iter().all(|node| node.found == node.held.b.bytes));
        let frames = nodes.iter().filter(|node| matches!(node.kind, NodeKind::Frame(_)));
        assert_eq!(frames.count(), 1000);
    }
}

/// The path of a stack of these lines, outermost first, after transforms; `None` if they do not keep it. A group is its number plus 1000,
/// and the node of merged stacks is 999.
struct Transformed {
    asked: Asked,
    stack: Option<StackId>,
}

impl Transformed {
    fn of(lines: &[u32]) -> Self {
        let names = ["f0", "f1", "f2", "f3", "f4", "f5", "f6", "f7", "f8", "f9"];
        let frames: Vec<(&str, u32)> =
            lines.iter().rev().map(|&line| (names[line as usize / 10], line)).collect();
        let asked = Asked::of(vec![by(1, 512, &frames)]);
        let stack = asked.history.allocations[0].stack;
        Self { asked, stack }
    }

    /// The frames of these functions: function n has the lines from 10 n to 10 n + 9.
    fn set(&self, functions: &[u32]) -> NodeSet {
        let frames = self.asked.trace.frames.iter().map(|(_, frame)| functions.contains(&(frame.line / 10)));
        NodeSet { frames: frames.collect(), groups: Vec::new() }
    }

    fn groups(&self, functions: &[u32], group: u32) -> Transform {
        let of = self.set(functions).frames;
        Transform::Collapse(of.into_iter().map(|has| if has { group } else { NO_GROUP }).collect())
    }

    /// A focus on the path of these lines.
    fn focus(&self, lines: &[u32], inverted: bool) -> Transform {
        let frames: Vec<_> = self.asked.trace.frames.iter().collect();
        let step = |&line: &u32| match line {
            1000.. => vec![NodeKind::Collapsed(line - 1000)],
            _ => frames
                .iter()
                .filter(|(_, frame)| frame.line == line)
                .map(|&(id, _)| NodeKind::Frame(id))
                .collect(),
        };
        let calls = Calls { of: CallsOf::Own, inverted };
        Transform::FocusPath { calls, steps: lines.iter().map(step).collect() }
    }

    fn path(&self, transforms: &[Transform], inverted: bool) -> Option<Vec<u32>> {
        let calls = Calls { of: CallsOf::Own, inverted };
        let transforms = Transforms(transforms.to_vec());
        let (trace, frames) = (&*self.asked.trace, &self.asked.frames);
        let paths = Paths { trace, frames, calls, transforms: &transforms };
        let path = paths.path(None, self.stack);
        let line = |&kind: &NodeKind| match kind {
            NodeKind::Collapsed(group) => 1000 + group,
            NodeKind::Merged => 999,
            kind => self.asked.line(kind),
        };
        assert_eq!(paths.keeps(None, self.stack), path.is_kept);
        path.is_kept.then(|| path.nodes.iter().map(line).collect())
    }
}

#[test]
fn transforms_change_paths_in_their_order() {
    use Transform::{CollapseRecursion, Drop, Focus, Merge};
    let of = Transformed::of(&[10, 20, 21, 30, 22, 40, 41]);
    let path = |transforms: &[Transform]| of.path(transforms, false);
    let set = |functions: &[u32]| of.set(functions);
    assert_eq!(path(&[Focus(set(&[2]))]).unwrap(), [20, 21, 30, 22, 40, 41]);
    assert_eq!(path(&[Focus(set(&[9]))]), None);
    // A focus within a focus does not see the callers above the first.
    assert_eq!(path(&[Focus(set(&[4])), Focus(set(&[2]))]), None);
    assert_eq!(path(&[Drop(set(&[3]))]), None);
    assert_eq!(path(&[Focus(set(&[4])), Drop(set(&[3]))]).unwrap(), [40, 41]);
    assert_eq!(path(&[Merge(set(&[2]))]).unwrap(), [10, 30, 40, 41]);
    assert_eq!(path(&[Merge(set(&[1, 2, 3, 4]))]).unwrap(), [999]);
    assert_eq!(path(&[CollapseRecursion(set(&[2]), 0)]).unwrap(), [10, 1000, 40, 41]);
    assert_eq!(path(&[of.groups(&[2], 0)]).unwrap(), [10, 1000, 30, 1000, 40, 41]);
    assert_eq!(path(&[Merge(set(&[3])), of.groups(&[2], 0)]).unwrap(), [10, 1000, 40, 41]);
    assert_eq!(path(&[of.groups(&[2], 0), Merge(set(&[3]))]).unwrap(), [10, 1000, 1000, 40, 41]);
    // A set that has a group also has its collapsed node.
    let merged = NodeSet { groups: vec![true], ..set(&[2]) };
    assert_eq!(path(&[of.groups(&[2], 0), Merge(merged)]).unwrap(), [10, 30, 40, 41]);
    assert_eq!(of.path(&[of.groups(&[4], 7), Focus(set(&[3]))], true).unwrap(), [1007, 22, 30]);
}

#[test]
fn a_focus_on_a_path_keeps_the_stacks_that_begin_with_it() {
    let of = Transformed::of(&[10, 20, 21, 30, 22, 40, 41]);
    let path = |transforms: &[Transform]| of.path(transforms, false);
    assert_eq!(path(&[of.focus(&[10, 20, 21], false)]).unwrap(), [21, 30, 22, 40, 41]);
    assert_eq!(path(&[of.focus(&[10, 21], false)]), None);
    assert_eq!(path(&[of.focus(&[10, 20, 21, 30, 22, 40, 41, 41], false)]), None);
    // In an inverted tree, the innermost frames come first, and the path leads to callers.
    let inverted = of.focus(&[41, 40], true);
    assert_eq!(of.path(std::slice::from_ref(&inverted), true).unwrap(), [40, 22, 30, 21, 20, 10]);
    assert_eq!(path(&[inverted]).unwrap(), [10, 20, 21, 30, 22, 40]);
    // The transforms before it decide about its path, those after it do not.
    let merge = Transform::Merge(of.set(&[2]));
    assert_eq!(path(&[merge.clone(), of.focus(&[10, 30], false)]).unwrap(), [30, 40, 41]);
    assert_eq!(path(&[of.focus(&[10, 30], false), merge]), None);
    assert_eq!(path(&[of.groups(&[1, 2], 0), of.focus(&[1000, 30], false)]).unwrap(), [30, 1000, 40, 41]);
    assert_eq!(
        path(&[of.focus(&[10, 20], false), of.focus(&[20, 21, 30], false)]).unwrap(),
        [30, 22, 40, 41]
    );
}

#[test]
fn transforms_move_bytes_but_lose_none() {
    let asked = two_moments();
    let holders = asked.holders(2, By::Stack);
    let calls = Calls { of: CallsOf::Own, inverted: false };
    let lines = |of: &[u32]| {
        let frames = asked.trace.frames.iter().map(|(_, frame)| of.contains(&frame.line)).collect();
        NodeSet { frames, groups: Vec::new() }
    };
    let tree = |transform: Transform| {
        let transforms = Transforms(vec![transform]);
        let paths = Paths { trace: &asked.trace, frames: &asked.frames, calls, transforms: &transforms };
        let nodes = compared_call_tree(paths, Both { a: &[], b: &holders }, &[]);
        told(&asked, &nodes)
            .into_iter()
            .map(|(depth, line, _, bytes, _)| (depth, line, bytes))
            .collect::<Vec<_>>()
    };
    assert_eq!(tree(Transform::Merge(lines(&[1]))), [(0, 50, 100), (0, 42, 60), (0, 7, 5)]);
    assert_eq!(tree(Transform::Merge(lines(&[42, 50]))), [(0, 1, 160), (0, 7, 5)]);
    let rows = [(0, 50, 100), (0, 1, 60), (1, 42, 60), (0, 7, 5)];
    assert_eq!(tree(Transform::Focus(lines(&[50]))), rows);
}

fn highest(of: &Both<Asked>, by: By) -> Vec<GroupPeakChange> {
    let whole = |asked: &Asked| Interval::of(&asked.history, Moment::START, asked.history.end());
    let within = Both { a: of.a.within(whole(&of.a)), b: of.b.within(whole(&of.b)) };
    group_peaks_of_both(within, by, &|_, _| false, &Cancel::default()).unwrap()
}

#[test]
fn each_group_is_compared_at_its_own_highest() {
    // Blocks of four lines, allocated and freed in an irregular order.
    let mut state = 7_u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut program = || {
        let mut events = Vec::new();
        let mut live: Vec<(u64, u64)> = Vec::new();
        for address in 1..400 {
            let size = (1 + random(64)) << 10;
            events.push(by(address, size, &[("work", 10 + random(4) as u32), MAIN]));
            live.push((address, size));
            while !live.is_empty() && random(5) < 3 {
                let (address, size) = live.swap_remove(random(live.len() as u64) as usize);
                events.push(freed(address, size));
            }
        }
        Asked::of(events)
    };
    let of = Both { a: program(), b: program() };
    for grouped in [By::Line, By::Function, By::Stack, By::Stream] {
        let told = highest(&of, grouped);
        let differences = told.iter().map(|c| c.group.held().map(|held| held.bytes).difference());
        assert!(differences.is_sorted_by(|x, y| x >= y));
        for (side, asked) in [(Side::A, &of.a), (Side::B, &of.b)] {
            let mut naive: HashMap<HolderKey, (u64, Moment)> = HashMap::new();
            for moment in (0..=asked.history.end().index()).map(Moment::from_index) {
                for holder in holders_at(&asked.history, &asked.frames, moment, grouped) {
                    let most = naive.entry(holder.key).or_insert((0, moment));
                    if holder.bytes > most.0 {
                        *most = (holder.bytes, moment);
                    }
                }
            }
            for change in &told {
                let holder = change.group.holders.of(side).as_ref().unwrap();
                assert_eq!(naive.remove(&holder.key), Some((holder.bytes, change.moments.of(side).unwrap())));
            }
            assert!(naive.is_empty(), "{grouped:?}");
        }
    }
}

#[test]
fn lines_of_a_moved_function_are_one_group_with_its_own_peak() {
    // One after the other, never together: the sum of the lines' peaks is not the function's peak.
    let program = |lines: [u32; 2]| {
        Asked::of(vec![
            by(1, 60 << 10, &[("work", lines[0]), MAIN]),
            freed(1, 60 << 10),
            by(2, 50 << 10, &[("work", lines[1]), MAIN]),
        ])
    };
    let told = highest(&Both { a: program([10, 20]), b: program([11, 22]) }, By::Line);
    assert_eq!(told.len(), 1);
    assert!(told[0].group.is_function);
    assert_eq!(told[0].group.held().map(|held| held.bytes >> 10), Both { a: 60, b: 60 });
}

#[test]
fn groups_in_an_interval_count_only_allocations_that_are_live_in_it() {
    let asked = two_moments();
    let interval = Interval::of(&asked.history, Moment::after(3), Moment::after(5));
    let within = |interval| GroupsInInterval {
        history: &asked.history,
        frames: &asked.frames,
        known: &NoProperties,
        interval,
    };
    let both = Both { a: within(interval.clone()), b: within(interval) };
    let told = group_peaks_of_both(both, By::Line, &|_, _| false, &Cancel::default()).unwrap();
    let mut rows: Vec<_> =
        told.iter().map(|c| (c.group.held().b.bytes >> 10, c.moments.b.unwrap().event())).collect();
    rows.sort_unstable();
    // Line 42 grows to 100 KiB at event 5; line 7 is still allocated at the start of the interval; line 50 was freed right before
    // it.
    assert_eq!(rows, [(5, Some(3)), (100, Some(5))]);
}
