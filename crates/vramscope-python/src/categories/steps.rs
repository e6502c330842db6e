//! Decides which steps of a program are watched.
//!
//! A step lasts from one call of the model to the next. Hooks cost time in each step, so they rest after several steps in a row
//! repeated earlier ones: the same tensor shapes as arguments, and the same number of allocations and bytes. The categories in
//! a step without hooks are inferred from a watched step, as long as both allocate the same sizes in the same order
//! ([`examples`]). A different step wakes the hooks. From time to time a step is watched anyway, because PyTorch's history
//! drops old events and must always contain examples.
//!
//! [`examples`]: super::examples

use std::collections::{HashMap, VecDeque};

/// The minimum number of repeated steps in a row before hooks rest. The required number is the number of steps up to the last
/// new one, clamped to this range: a program may do something else every few steps.
const QUIET_STEPS: [u64; 2] = [3, 32];

/// The number of steps watched in a row before a step with a new amount of allocations becomes an example. A backward pass may
/// use results of a step without hooks.
const SETTLED_STEPS: u64 = 3;

/// The maximum number of remembered kinds of steps.
const MAX_KINDS: usize = 4_096;

/// PyTorch's number of allocations so far, and its allocated and freed bytes so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Counts {
    pub(crate) allocations: u64,
    pub(crate) allocated: u64,
    pub(crate) freed: u64,
}

impl Counts {
    /// The difference to an earlier reading. None if the program reset PyTorch's counters.
    fn since(self, before: Self) -> Option<Self> {
        Some(Self {
            allocations: self.allocations.checked_sub(before.allocations)?,
            allocated: self.allocated.checked_sub(before.allocated)?,
            freed: self.freed.checked_sub(before.freed)?,
        })
    }
}

/// The span from one call of the model to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) begin: i64,
    /// A hash of the model's arguments.
    pub(crate) signature: u64,
    pub(crate) is_watched: bool,
    /// Whether other steps take their categories from this one.
    pub(crate) is_example: bool,
}

/// The observations of one kind of step.
#[derive(Debug)]
struct Known {
    /// The number of place changes that hooks saw in it.
    places: u64,
    /// PyTorch's allocation count at the start of its newest example.
    example: u64,
    /// PyTorch's allocation count at the end of its newest step.
    last: u64,
}

/// The current step.
#[derive(Debug)]
struct Current {
    step: Step,
    counts: Option<Counts>,
    places: u64,
}

/// The steps of a recording.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    /// A kind of step is watched again after this many allocations.
    max_age: u64,
    capacity: usize,
    done: VecDeque<Step>,
    current: Option<Current>,
    kinds: HashMap<(u64, Counts), Known>,
    seen: u64,
    quiet: u64,
    quiet_needed: u64,
    watched_in_a_row: u64,
    has_rested: bool,
}

impl Steps {
    /// Steps of a PyTorch history that keeps `entries` events.
    pub(crate) fn new(entries: usize) -> Self {
        Self {
            // An allocation has three events, so the newest example is at most half of the history old.
            max_age: entries as u64 / 6,
            capacity: entries.max(1),
            ..Self::default()
        }
    }

    /// Begins a step and ends the previous one. `counts` is None if allocations cannot be counted. `places` is the number of
    /// place changes that the hooks saw so far. Returns whether the step must be watched.
    pub(crate) fn begin(&mut self, begin: i64, signature: u64, counts: Option<Counts>, places: u64) -> bool {
        self.end(counts, places);
        self.seen += 1;
        let [least, most] = QUIET_STEPS;
        let is_quiet = self.quiet >= self.quiet_needed.clamp(least, most);
        let is_watched = !(is_quiet && counts.is_some_and(|counts| self.has_examples(signature, counts)));
        if is_watched {
            self.watched_in_a_row += 1;
        } else {
            self.watched_in_a_row = 0;
            self.has_rested = true;
        }
        let step = Step { begin, signature, is_watched, is_example: false };
        self.current = Some(Current { step, counts, places });
        is_watched
    }

    /// Ends the current step.
    fn end(&mut self, counts: Option<Counts>, places: u64) {
        let Some(Current { mut step, counts: before, places: places_before }) = self.current.take() else {
            return;
        };
        let places = places - places_before;
        let made = counts.zip(before).and_then(|(now, before)| Some((now, before, now.since(before)?)));
        let known = made.and_then(|(.., made)| self.kinds.get_mut(&(step.signature, made)));
        match (made, known) {
            (Some((now, before, _)), Some(known)) => {
                self.quiet += 1;
                known.last = now.allocations;
                // If the places differ, a backward pass used results of a step without hooks.
                if step.is_watched && known.places == places {
                    step.is_example = true;
                    known.example = before.allocations;
                }
            }
            (made, _) => {
                self.quiet = 0;
                self.quiet_needed = self.seen;
                let is_settled = !self.has_rested || self.watched_in_a_row > SETTLED_STEPS;
                if let Some((now, before, made)) = made.filter(|_| step.is_watched && is_settled) {
                    if self.kinds.len() >= MAX_KINDS {
                        self.kinds.clear();
                    }
                    let known = Known { places, example: before.allocations, last: now.allocations };
                    self.kinds.insert((step.signature, made), known);
                    step.is_example = true;
                }
            }
        }
        if self.done.len() >= self.capacity {
            self.done.pop_front();
        }
        self.done.push_back(step);
    }

    /// Whether PyTorch's history has an example of each recently seen kind of step with this signature.
    fn has_examples(&self, signature: u64, now: Counts) -> bool {
        let is_recent = |since: u64| now.allocations.saturating_sub(since) <= self.max_age;
        let mut lately = self
            .kinds
            .iter()
            .filter(|((known, _), kind)| *known == signature && is_recent(kind.last))
            .peekable();
        lately.peek().is_some() && lately.all(|(_, kind)| is_recent(kind.example))
    }

    /// All steps in time order.
    pub(crate) fn all(&self) -> Vec<Step> {
        self.done.iter().copied().chain(self.current.as_ref().map(|current| current.step)).collect()
    }
}

#[cfg(test)]
mod tests;
