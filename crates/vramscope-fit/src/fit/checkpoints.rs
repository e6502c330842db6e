//! Which modules to checkpoint for a limit, with the least recomputation.
//!
//! The forward pass is a chain: it saves tensors for the backward pass, which frees them in the opposite order. A checkpointed module keeps
//! its inputs instead, and computes its tensors again when the backward pass reaches it. For such a chain, [`Chain::cheapest`] is exact.
//! Programs differ from a chain in temporary memory and in fragmentation, so each choice is verified by a run.

use std::collections::BTreeMap;

use crate::phantom::changes::{Forward, ModuleCall};

/// Floating-point operations in the time of one byte of memory traffic. Cards of the last years have 50 to 300.
const FLOPS_PER_BYTE: u64 = 100;

/// Partial choices with different memory that are remembered at each position. With more, those of nearly equal memory are merged.
const MOST_CHOICES: usize = 1 << 14;

/// A module that can be checkpointed.
#[derive(Debug)]
struct Module {
    path: String,
    /// Positions of its start and its end.
    positions: (usize, usize),
    /// Bytes of the inputs, which are kept.
    inputs: u64,
    /// The price of recomputation, as floating-point operations.
    work: u64,
}

/// A forward pass and its modules.
#[derive(Debug)]
pub(crate) struct Chain {
    /// Where modules start and end: the bytes saved for the backward pass so far, and the bytes of parameters used so far.
    positions: Vec<(u64, u64)>,
    modules: Vec<Module>,
}

/// A partial choice of modules. `previous` is the choice before `module` was added.
#[derive(Debug, Clone, Copy)]
struct Choice {
    module: usize,
    previous: Option<usize>,
}

/// What is compared of two choices with the same memory: recomputation, the number of modules, and how late they are.
type Price = (u128, usize, usize);

impl Chain {
    pub(crate) fn new(forward: &Forward) -> Self {
        let end = (forward.saved_bytes, forward.parameter_bytes);
        let ends = |call: &ModuleCall| {
            let at = |i: usize| (call.saved_bytes[i].min(end.0), call.parameter_bytes[i].min(end.1));
            (at(0), at(1))
        };
        let mut positions: Vec<(u64, u64)> = vec![(0, 0), end];
        let calls: Vec<&ModuleCall> =
            forward.modules.iter().filter(|call| call.saved_bytes[0] < call.saved_bytes[1]).collect();
        positions.extend(calls.iter().flat_map(|call| [ends(call).0, ends(call).1]));
        positions.sort_unstable();
        positions.dedup();
        let position = |of: (u64, u64)| positions.partition_point(|&other| other < of);
        let modules = calls.iter().map(|call| {
            let (from, to) = ends(call);
            let flops = forward.flops.get(&call.path).copied().unwrap_or(0);
            Module {
                path: call.path.clone(),
                positions: (position(from), position(to)),
                inputs: call.input_bytes,
                work: flops.saturating_add((to.0 - from.0).saturating_mul(FLOPS_PER_BYTE)),
            }
        });
        let modules = modules.filter(|module| module.positions.0 < module.positions.1).collect();
        Self { positions, modules }
    }

    /// Whether there is no module to choose.
    pub(crate) fn is_empty(&self) -> bool {
        self.modules.is_empty()
    }

    /// The number of modules outside all others, if all chosen ones are among them.
    pub(crate) fn outermost(&self, chosen: &[usize]) -> Option<usize> {
        let contains = |outer: &Module, inner: &Module| {
            inner.path.strip_prefix(&outer.path).is_some_and(|rest| rest.starts_with('.'))
        };
        let is_inside = |module: &Module| self.modules.iter().any(|outer| contains(outer, module));
        let are_outside = !chosen.iter().filter_map(|&i| self.modules.get(i)).any(is_inside);
        are_outside.then(|| self.modules.iter().filter(|module| !is_inside(module)).count())
    }

    /// The paths of the modules outside all others.
    pub(crate) fn outer_paths(&self) -> Vec<String> {
        let all: Vec<usize> = (0..self.modules.len()).collect();
        let outer: Vec<usize> = all.into_iter().filter(|&i| self.outermost(&[i]).is_some()).collect();
        self.paths(&outer)
    }

    /// The paths of chosen modules.
    pub(crate) fn paths(&self, chosen: &[usize]) -> Vec<String> {
        chosen
            .iter()
            .filter_map(|&module| self.modules.get(module))
            .map(|module| module.path.clone())
            .collect()
    }

    /// The price of recomputing the chosen modules, as floating-point operations.
    pub(crate) fn work(&self, chosen: &[usize]) -> u128 {
        chosen
            .iter()
            .filter_map(|&module| self.modules.get(module))
            .map(|module| u128::from(module.work))
            .sum()
    }

    /// The peak of saved bytes and gradients in the backward pass, with `chosen` checkpointed.
    pub(crate) fn peak(&self, chosen: &[usize]) -> u64 {
        let mut starts: BTreeMap<usize, &Module> = BTreeMap::new();
        starts.extend(
            chosen.iter().filter_map(|&i| self.modules.get(i)).map(|module| (module.positions.0, module)),
        );
        let (mut at, mut kept, mut peak) = (0, 0, 0);
        while at + 1 < self.positions.len() {
            let module = starts.get(&at);
            let next = module.map_or(at + 1, |module| module.positions.1);
            peak = peak.max(kept + self.live(at, next));
            kept += module.map_or_else(|| self.saved(at, next), |module| module.inputs);
            at = next;
        }
        peak
    }

    /// Bytes that the pass saves between two positions.
    fn saved(&self, from: usize, to: usize) -> u64 {
        self.positions[to].0 - self.positions[from].0
    }

    /// Live bytes when the backward pass reaches `to`, without those that were kept before `from`.
    fn live(&self, from: usize, to: usize) -> u64 {
        let all = self.positions.last().map_or(0, |end| end.1);
        self.saved(from, to) + (all - self.positions[to].1)
    }

    /// The modules with the least recomputation whose [`peak`](Self::peak) is at most `limit`; of equal ones, the earliest. `None` if there
    /// are none.
    pub(crate) fn cheapest(&self, limit: u64) -> Option<Vec<usize>> {
        let mut choices: Vec<Choice> = Vec::new();
        // For each position, by kept bytes: the price, and the last chosen module.
        let mut best: Vec<BTreeMap<u64, (Price, Option<usize>)>> =
            vec![BTreeMap::new(); self.positions.len()];
        best[0].insert(0, ((0, 0, 0), None));
        for at in 0..self.positions.len() - 1 {
            let here = thinned(std::mem::take(&mut best[at]));
            let starting = self.modules.iter().enumerate().filter(|(_, module)| module.positions.0 == at);
            let starting: Vec<(usize, &Module)> = starting.collect();
            for (&kept, &(price, last)) in &here {
                if kept + self.live(at, at + 1) <= limit {
                    improve(&mut best[at + 1], kept + self.saved(at, at + 1), price, || last);
                }
                for &(i, module) in &starting {
                    let end = module.positions.1;
                    if kept + self.live(at, end) <= limit {
                        let price = (price.0 + u128::from(module.work), price.1 + 1, price.2 + at);
                        improve(&mut best[end], kept + module.inputs, price, || {
                            choices.push(Choice { module: i, previous: last });
                            Some(choices.len() - 1)
                        });
                    }
                }
            }
        }
        let (_, mut last) = *best.last()?.values().min_by_key(|(price, _)| *price)?;
        let mut chosen = Vec::new();
        while let Some(choice) = last.and_then(|last| choices.get(last)) {
            chosen.push(choice.module);
            last = choice.previous;
        }
        chosen.reverse();
        Some(chosen)
    }

    /// The modules with the lowest [`peak`](Self::peak), within a thousandth of it.
    pub(crate) fn lowest(&self) -> Vec<usize> {
        let (mut low, mut chosen) = (0, Vec::new());
        let mut high = self.peak(&[]);
        let step = (high / 1000).max(1);
        while high - low > step {
            let middle = u64::midpoint(low, high);
            match self.cheapest(middle) {
                Some(found) => (high, chosen) = (self.peak(&found).clamp(low, middle), found),
                None => low = middle,
            }
        }
        chosen
    }
}

/// Adds a choice that keeps `kept` bytes, if no other keeps as few bytes for its price.
fn improve(
    best: &mut BTreeMap<u64, (Price, Option<usize>)>,
    kept: u64,
    price: Price,
    choice: impl FnOnce() -> Option<usize>,
) {
    let is_worse = best.range(..=kept).next_back().is_some_and(|(_, (other, _))| *other <= price);
    if is_worse {
        return;
    }
    while let Some((&other, _)) = best.range(kept..).next().filter(|(_, (other, _))| *other >= price) {
        best.remove(&other);
    }
    best.insert(kept, (price, choice()));
}

/// At most [`MOST_CHOICES`]: of those with nearly equal memory, one remains.
fn thinned(choices: BTreeMap<u64, (Price, Option<usize>)>) -> BTreeMap<u64, (Price, Option<usize>)> {
    if choices.len() <= MOST_CHOICES {
        return choices;
    }
    let most = choices.last_key_value().map_or(0, |(kept, _)| *kept);
    let width = most / MOST_CHOICES as u64 + 1;
    let mut last = None;
    choices.into_iter().filter(|(kept, _)| last.replace(kept / width) != Some(kept / width)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A pass of modules one after the other, each with saved bytes, inputs and operations, and bytes of parameters.
    fn forward(modules: &[(u64, u64, u64, u64)], tail: u64) -> Forward {
        let mut forward = Forward::default();
        for (i, &(saved, input_bytes, flops, parameters)) in modules.iter().enumerate() {
            let path = format!("blocks.{i}");
            let before = (forward.saved_bytes, forward.parameter_bytes);
            forward.saved_bytes += saved;
            forward.parameter_bytes += parameters;
            forward.flops.insert(path.clone(), flops);
            forward.modules.push(ModuleCall {
                path,
                saved_bytes: [before.0, forward.saved_bytes],
                parameter_bytes: [before.1, forward.parameter_bytes],
                input_bytes,
            });
        }
        forward.saved_bytes += tail;
        forward
    }

    #[test]
    fn the_first_of_equal_modules_are_chosen() {
        let chain = Chain::new(&forward(&[(100, 10, 1000, 0); 4], 50));
        assert_eq!(chain.peak(&[]), 450);
        // The input of the first and the other three.
        assert_eq!(chain.peak(&[0]), 360);
        assert_eq!(chain.cheapest(450), Some(vec![]));
        assert_eq!(chain.cheapest(449), Some(vec![0]));
        assert_eq!(chain.cheapest(300), Some(vec![0, 1]));
        assert_eq!(chain.cheapest(180), Some(vec![0, 1, 2]));
        // All inputs, and one module at a time.
        assert_eq!(chain.cheapest(130), Some(vec![0, 1, 2, 3]));
        assert_eq!(chain.cheapest(129), None);
        assert_eq!(chain.peak(&chain.lowest()), 130);
        assert_eq!(chain.paths(&[2]), ["blocks.2"]);
        assert!(Chain::new(&Forward::default()).is_empty());
    }

    #[test]
    fn gradients_of_later_modules_count() {
        let chain = Chain::new(&forward(&[(100, 10, 1, 0), (10, 10, 1, 500)], 0));
        // The backward pass of the first module has the gradients of the second.
        assert_eq!(chain.peak(&[]), 600);
        assert_eq!(chain.peak(&[0]), 600);
    }

    #[test]
    fn a_module_or_modules_inside_are_chosen() {
        let mut pass = forward(&[(100, 10, 1000, 0), (100, 10, 10, 0)], 200);
        pass.flops.insert("all".to_owned(), 1010);
        pass.modules.push(ModuleCall {
            path: "all".to_owned(),
            saved_bytes: [0, 200],
            parameter_bytes: [0, 0],
            input_bytes: 10,
        });
        for call in &mut pass.modules {
            call.path = call.path.replace("blocks", "all");
        }
        pass.flops =
            pass.flops.into_iter().map(|(path, flops)| (path.replace("blocks", "all"), flops)).collect();
        let chain = Chain::new(&pass);
        assert_eq!((chain.outermost(&[2]), chain.outermost(&[0])), (Some(1), None));
        assert_eq!(chain.cheapest(399).map(|chosen| chain.paths(&chosen)), Some(vec!["all.1".to_owned()]));
        assert_eq!(chain.cheapest(215).map(|chosen| chain.paths(&chosen)), Some(vec!["all".to_owned()]));
    }

    proptest! {
        #[test]
        fn no_other_choice_of_modules_recomputes_less(
            modules in proptest::collection::vec((1u64..1000, 0u64..300, 0u64..100_000, 0u64..500), 1..9),
            tail in 0u64..1000,
            share in 0u64..=100,
        ) {
            let chain = Chain::new(&forward(&modules, tail));
            let limit = chain.peak(&[]) * share / 100;
            let all = (0..1usize << modules.len())
                .map(|bits| (0..modules.len()).filter(|i| bits >> i & 1 == 1).collect::<Vec<_>>());
            let cheapest = all.filter(|chosen| chain.peak(chosen) <= limit).map(|chosen| chain.work(&chosen)).min();
            let found = chain.cheapest(limit);
            prop_assert_eq!(found.as_ref().map(|chosen| chain.work(chosen)), cheapest);
            prop_assert!(found.is_none_or(|chosen| chain.peak(&chosen) <= limit));
        }
    }
}
