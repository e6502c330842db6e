//! Activation checkpointing of blocks: modules that the forward pass calls one after the other at one line.
//!
//! A block is a call site in the stacks of forward passes, with a call of a module below it. A stack does not tell the calls apart. But
//! each call begins with the same allocation, so the first stack begins a new call when it comes again.

use std::sync::Arc;

use hashbrown::HashMap;
use vramscope_trace::{FrameId, StackId};

use super::program::{Changed, Item, Program, is_activation};
use super::{BlockCalls, NoEstimate};
use crate::categories::PassPhase;
use crate::history::{LifetimeChange, LifetimeChanges, Moment};

/// The parts of all activations that the largest block may have. Each part gives a choice of blocks, and the best one counts.
const PARTS: [u64; 9] = [2, 3, 4, 6, 8, 12, 16, 24, 32];

/// A call site. Its frames are those of its parent, and one more inside.
struct Site {
    parent: Option<usize>,
    frame: FrameId,
    calls: Vec<Call>,
    /// The pass of the last call, the stack that begins a call, and the last stack.
    pass: usize,
    first: Option<StackId>,
    last: Option<StackId>,
}

/// A call of a module.
#[derive(Clone, Default)]
pub(super) struct Call {
    pass: usize,
    /// The items allocated in it, in order.
    items: Vec<u32>,
    /// Bytes of its activations without its output.
    bytes: u64,
}

impl Call {
    /// A call that made these items, which are in order.
    pub(super) fn of(program: &Program<'_>, items: Vec<u32>) -> Self {
        let mut call = Self { pass: 0, items, bytes: 0 };
        call.bytes = bytes(program, &call);
        call
    }

    /// The items allocated in it, in order.
    pub(super) fn items(&self) -> &[u32] {
        &self.items
    }
}

fn bytes(program: &Program<'_>, call: &Call) -> u64 {
    activations(program, call).rev().skip(1).map(|(_, item)| item.size).sum()
}

/// The activations of a call, which are in order; the last one is the output.
fn activations<'p>(
    program: &'p Program<'_>,
    call: &Call,
) -> impl DoubleEndedIterator<Item = (usize, &'p Item)> {
    let items = call.items.iter().map(|&at| (at as usize, &program.items[at as usize]));
    items.filter(|(_, item)| is_activation(item))
}

/// The peak with all blocks checkpointed, for the choice of blocks with the lowest peak.
pub(super) fn checkpointed(program: &Program<'_>) -> Result<(u64, Vec<BlockCalls>), NoEstimate> {
    let (peak, sites, chosen) = best(program)?;
    Ok((peak, chosen.into_iter().map(|at| block_calls(program, &sites, at)).collect()))
}

/// The calls of the blocks with the lowest peak; none if the program has no blocks.
pub(super) fn calls(program: &Program<'_>) -> Vec<Call> {
    let Ok((_, sites, chosen)) = best(program) else { return Vec::new() };
    chosen.into_iter().flat_map(|at| sites[at].calls.clone()).collect()
}

/// The choice of blocks with the lowest peak: the peak, the sites, and the chosen ones.
fn best(program: &Program<'_>) -> Result<(u64, Vec<Site>, Vec<usize>), NoEstimate> {
    if program.activations().next().is_none() {
        return Err(NoEstimate::NoActivations);
    }
    program.needs_stacks()?;
    if program.passes_of(PassPhase::Recompute).next().is_some() {
        return Err(NoEstimate::AlreadyRecomputes);
    }
    let sites = sites(program);
    // The most bytes of one pass.
    let of_pass = |site: &Site| {
        let calls = site.calls.chunk_by(|a, b| a.pass == b.pass);
        calls.map(|calls| calls.iter().map(|call| call.bytes).sum::<u64>()).max()
    };
    let total = sites.iter().filter_map(of_pass).max().unwrap_or(0);
    let mut best: Option<(u64, Vec<usize>)> = None;
    let mut tried: Vec<Vec<usize>> = vec![Vec::new()];
    for part in PARTS {
        let chosen = chosen(&sites, total / part);
        if tried.contains(&chosen) {
            continue;
        }
        let peak = changed(program, &sites, &chosen).peak();
        if best.as_ref().is_none_or(|(lowest, _)| peak < *lowest) {
            best = Some((peak, chosen.clone()));
        }
        tried.push(chosen);
    }
    let (peak, chosen) = best.ok_or(NoEstimate::NoBlocks)?;
    Ok((peak, sites, chosen))
}

/// The call sites of modules in forward passes.
fn sites(program: &Program<'_>) -> Vec<Site> {
    let mut sites: Vec<Site> = Vec::new();
    let mut known: HashMap<(Option<usize>, FrameId), usize> = HashMap::new();
    // The sites of each stack, outermost first.
    let mut of_stack: HashMap<StackId, Vec<usize>> = HashMap::new();
    let trace = program.history.trace();
    let is_call = |frame: FrameId| {
        let frame = trace.frames.get(frame);
        let name = trace.strings.get(frame.name);
        name == "_wrapped_call_impl" || name == "_call_impl"
    };
    let passes: Vec<_> = program.passes_of(PassPhase::Forward).copied().collect();
    for (at, item) in program.indexed().filter(|(_, item)| item.phase == PassPhase::Forward) {
        let Some(stack) = item.stack else { continue };
        let pass = passes.partition_point(|pass| pass.from <= item.from);
        let found = of_stack.entry(stack).or_insert_with(|| {
            let frames = trace.stacks.get(stack);
            let mut all = Vec::new();
            let mut parent = None;
            for depth in (1..frames.len()).rev() {
                let (frame, inner) = (frames[depth], frames[depth - 1]);
                let site = *known.entry((parent, frame)).or_insert_with(|| {
                    sites.push(Site { parent, frame, calls: Vec::new(), pass: 0, first: None, last: None });
                    sites.len() - 1
                });
                parent = Some(site);
                if is_call(inner) && !is_call(frame) {
                    all.push(site);
                }
            }
            all
        });
        for &site in &*found {
            let site = &mut sites[site];
            // One operation may allocate several times.
            let is_again = site.first == Some(stack) && site.last != Some(stack);
            site.last = Some(stack);
            if site.pass != pass || is_again {
                if site.pass != pass {
                    site.first = Some(stack);
                }
                site.pass = pass;
                site.calls.push(Call { pass, ..Call::default() });
            }
            if let Some(call) = site.calls.last_mut() {
                call.items.push(u32::try_from(at).unwrap_or(u32::MAX));
            }
        }
    }
    for call in sites.iter_mut().flat_map(|site| &mut site.calls) {
        call.bytes = bytes(program, call);
    }
    sites
}

/// The outermost sites that make several calls in a pass, each with at most `most` bytes.
fn chosen(sites: &[Site], most: u64) -> Vec<usize> {
    let mut is_covered = vec![false; sites.len()];
    let is_twin = outer_twins(sites);
    let mut all = Vec::new();
    // A parent comes before its children.
    for (at, site) in sites.iter().enumerate() {
        is_covered[at] = site.parent.is_some_and(|parent| is_covered[parent]);
        let makes_several = || site.calls.windows(2).any(|two| two[0].pass == two[1].pass);
        let bytes = || site.calls.iter().map(|call| call.bytes);
        if !is_covered[at]
            && !is_twin[at]
            && makes_several()
            && bytes().all(|bytes| bytes <= most)
            && bytes().any(|bytes| bytes > 0)
        {
            is_covered[at] = true;
            all.push(at);
        }
    }
    all
}

/// For each site, whether a site inside it makes the same calls, as the line that runs a model whose blocks begin at once.
fn outer_twins(sites: &[Site]) -> Vec<bool> {
    let shape =
        |site: &Site| (site.calls.len(), site.calls.iter().map(|call| call.items.len()).sum::<usize>());
    let shapes: Vec<(usize, usize)> = sites.iter().map(shape).collect();
    let mut is_twin = vec![false; sites.len()];
    for (at, site) in sites.iter().enumerate().filter(|(_, site)| !site.calls.is_empty()) {
        for above in std::iter::successors(site.parent, |&site| sites[site].parent) {
            is_twin[above] |= shapes[above] == shapes[at];
        }
    }
    is_twin
}

/// A copy in which the calls of these sites are checkpointed.
fn changed<'p>(program: &'p Program<'p>, sites: &[Site], chosen: &[usize]) -> Changed<'p> {
    let mut changed = program.changed();
    checkpoint(program, &mut changed, chosen.iter().flat_map(|&at| &sites[at].calls));
    changed
}

/// Checkpoints calls. Returns the number of activations that are not kept for the backward pass.
pub(super) fn checkpoint<'c>(
    program: &Program<'_>,
    changed: &mut Changed<'_>,
    calls: impl Iterator<Item = &'c Call>,
) -> usize {
    let mut count = 0;
    let mut ends: Vec<Moment> = program.activations().map(|(_, item)| item.to).collect();
    ends.sort_unstable();
    // The most bytes of a call whose backward pass was not recorded, with its temporaries.
    let mut open = 0;
    for call in calls {
        let Some(&last) = call.items.last() else { continue };
        let end = Moment::after(program.items[last as usize].from.index());
        let saved = || activations(program, call).rev().skip(1).filter(|(_, item)| item.to > end);
        let Some(first_freed) = saved().map(|(_, item)| item.to).min() else { continue };
        // The call runs again when the backward pass is done with the operations after it.
        let before = ends.partition_point(|&end| end < first_freed).checked_sub(1);
        let again = before.map_or(end, |before| ends[before]).max(end);
        let temporaries = temporaries(program, call);
        for (at, item) in saved() {
            let size = changed.sizes[at];
            changed.cut(at, end);
            if item.to != Moment::NEVER {
                changed.add(again, item.to, size);
            }
            count += 1;
        }
        if first_freed == Moment::NEVER {
            open = open.max(call.bytes + temporaries);
        } else {
            changed.add(again, first_freed, temporaries);
        }
    }
    let end = program.history.end();
    changed.add(end, Moment::after(end.index()), open);
    count
}

/// The most bytes that a call has at one time, beside its activations.
fn temporaries(program: &Program<'_>, call: &Call) -> u64 {
    let items = call.items.iter().map(|&at| &program.items[at as usize]);
    let lifetimes = items.filter(|item| !is_activation(item)).map(|item| (item.from, item.to, item.size));
    let (mut bytes, mut highest) = (0, 0);
    for (_, change, size) in LifetimeChanges::of(lifetimes) {
        match change {
            LifetimeChange::Begins => bytes += size,
            LifetimeChange::Ends => bytes -= size,
        }
        highest = highest.max(bytes);
    }
    highest
}

fn block_calls(program: &Program<'_>, sites: &[Site], at: usize) -> BlockCalls {
    let trace = program.history.trace();
    let site = &sites[at];
    // Compiled code is between two frames of Python. A call in a `Sequential` is known by the line that calls the `Sequential`.
    let outside = |&site: &usize| {
        let file = trace.strings.get(trace.frames.get(sites[site].frame).filename);
        file.ends_with(".py") && !file.replace('\\', "/").contains("torch/nn/modules/")
    };
    let mut above = std::iter::successors(Some(at), |&site| sites[site].parent);
    let caller = above.find(outside).unwrap_or(at);
    let last = site.calls.last().map_or(0, |call| call.pass);
    let in_pass = |pass: usize| site.calls.iter().filter(|call| call.pass == pass).count();
    BlockCalls {
        caller: sites[caller].frame,
        container: container(program, &site.calls),
        calls: in_pass(last).max(last.checked_sub(1).map_or(0, in_pass)),
    }
}

/// The path that the modules of all calls have in common.
fn container(program: &Program<'_>, calls: &[Call]) -> Option<Arc<str>> {
    let mut common: Option<Vec<&str>> = None;
    for &at in calls.iter().flat_map(|call| &call.items) {
        let id = program.items[at as usize].id?;
        let path = program.categories.layer(&program.history.allocations[id as usize])?;
        let parts = path.split('.');
        common = Some(match common {
            None => parts.collect(),
            Some(before) => {
                before.into_iter().zip(parts).take_while(|(a, b)| a == b).map(|(a, _)| a).collect()
            }
        });
    }
    common.filter(|parts| !parts.is_empty()).map(|parts| parts.join(".").into())
}
