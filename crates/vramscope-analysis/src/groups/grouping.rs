//! Groups allocations by a common property, reading each allocation once. All sums over groups use this.

use hashbrown::HashMap;
use vramscope_trace::{Category, StackId};

use super::keys::{By, Holder, HolderKey, Keys};
use super::properties::AllocationProperties;
use crate::history::{History, Origin, RecordedAllocation};
use crate::stacks::Frames;

/// Parts combined into groups.
pub(crate) struct Grouped {
    /// The groups, each with the stack of its first part and without amounts.
    pub groups: Vec<Holder>,
    /// The group index of each part.
    pub of_part: Vec<usize>,
}

/// Parts of groups, by class and stack. Many allocations share few classes and stacks, and group keys are expensive to compute.
/// Parts are numbered from 0 in the order in which they first occur.
pub(crate) struct Grouping<'h, K> {
    history: &'h History,
    known: &'h K,
    by: By,
    /// The property of each class; `None` if it depends on the stack.
    classes: Vec<(Option<Origin>, Option<HolderKey>)>,
    of_key: HashMap<HolderKey, u32>,
    /// The class of allocations that are [alike](AllocationProperties::alike), or of each step.
    of_alike: Vec<u32>,
    /// The step of the last allocation: the next allocation is usually in the same step.
    step: usize,
    /// Number of stacks, plus one for allocations without a stack.
    stacks: usize,
    /// The part of each stack for the first classes; `NONE` if there is none.
    table: Vec<u32>,
    /// The largest size of the table, so that filling it never takes longer than reading the allocations.
    most_places: usize,
    /// Like `table`, for the other classes.
    index: HashMap<usize, u32>,
    parts: Vec<(u32, Option<StackId>)>,
}

const NONE: u32 = u32::MAX;

/// The largest size of any table, and the number of its places for each allocation.
const MOST_PLACES: usize = 1 << 22;
const PLACES_EACH: usize = 8;

/// The classes if the group depends on the stack.
const ORIGINS: [Origin; 3] = [Origin::Recorded, Origin::EndState, Origin::FreeOnly];

impl<'h, K: AllocationProperties> Grouping<'h, K> {
    /// Groups about `count` allocations.
    pub(crate) fn of(history: &'h History, known: &'h K, by: By, count: usize) -> Self {
        let classes = match by {
            By::Stack | By::Line | By::Function | By::File | By::Module => {
                ORIGINS.map(|origin| (Some(origin), None)).into()
            }
            By::Category => Category::ALL.map(|of| (None, Some(HolderKey::Category(of)))).into(),
            By::Step | By::Stream | By::Pool | By::Layer | By::Size => Vec::new(),
        };
        Self {
            history,
            known,
            by,
            classes,
            of_key: HashMap::new(),
            of_alike: Vec::new(),
            step: 0,
            stacks: history.trace().stacks.len() + 1,
            table: Vec::new(),
            most_places: count.saturating_mul(PLACES_EACH).min(MOST_PLACES),
            index: HashMap::new(),
            parts: Vec::new(),
        }
    }

    /// Returns the part index of an allocation.
    #[inline]
    pub(crate) fn part(&mut self, id: usize, a: &RecordedAllocation) -> usize {
        let class = self.class(id, a);
        let place = class as usize * self.stacks + a.stack.map_or(0, |stack| stack.index() + 1);
        let Self { table, index, parts, stacks, most_places, .. } = self;
        if place >= table.len() && place < *most_places {
            table.resize(((class as usize + 1) * *stacks).min(*most_places), NONE);
        }
        let part = match table.get_mut(place) {
            Some(part) => part,
            None => index.entry(place).or_insert(NONE),
        };
        if *part == NONE {
            *part = parts.len() as u32;
            parts.push((class, a.stack));
        }
        *part as usize
    }

    #[inline]
    fn class(&mut self, id: usize, a: &RecordedAllocation) -> u32 {
        match self.by {
            By::Category => {
                let of = self.known.category(id);
                Category::ALL.iter().position(|&category| category == of).unwrap_or_default() as u32
            }
            By::Step => self.class_of_step(a),
            By::Size => self.class_of_key(HolderKey::of_size(a.size)),
            By::Pool | By::Layer | By::Stream => self.class_of_alike(id, a),
            By::Stack | By::Line | By::Function | By::File | By::Module => {
                ORIGINS.iter().position(|&origin| origin == a.origin).unwrap_or_default() as u32
            }
        }
    }

    fn class_of_step(&mut self, a: &RecordedAllocation) -> u32 {
        let step = self.known.steps().and_then(|all| {
            let is_in = all.steps.get(self.step).is_some_and(|s| s.from < a.from && a.from <= s.to);
            if is_in && a.origin == Origin::Recorded { Some(self.step) } else { all.made_in(a) }
        });
        self.step = step.unwrap_or_default();
        self.remembered(step.map_or(0, |n| n + 1), || HolderKey::Step(step))
    }

    fn class_of_alike(&mut self, id: usize, a: &RecordedAllocation) -> u32 {
        let (by, known) = (self.by, self.known);
        let key = || match by {
            By::Pool => HolderKey::Pool(known.pool(id)),
            By::Stream => HolderKey::Stream(a.stream),
            _ => HolderKey::Layer(known.layer(id)),
        };
        match known.alike(id) {
            Some(number) => self.remembered(number as usize, key),
            None => self.class_of_key(key()),
        }
    }

    /// Returns the class for a number; the key is computed only once.
    #[inline]
    fn remembered(&mut self, number: usize, key: impl FnOnce() -> HolderKey) -> u32 {
        if let Some(&class) = self.of_alike.get(number).filter(|&&class| class != NONE) {
            return class;
        }
        let class = self.class_of_key(key());
        if self.of_alike.len() <= number {
            self.of_alike.resize(number + 1, NONE);
        }
        self.of_alike[number] = class;
        class
    }

    fn class_of_key(&mut self, key: HolderKey) -> u32 {
        if let Some(&class) = self.of_key.get(&key) {
            return class;
        }
        let class = self.classes.len() as u32;
        self.classes.push((None, Some(key.clone())));
        self.of_key.insert(key, class);
        class
    }

    /// Combines the parts into groups. The first part of each group, in the given order, determines its stack.
    pub(crate) fn grouped<O: Ord>(self, frames: &Frames, order: impl Fn(usize) -> O) -> Grouped {
        let Self { history, by, parts, classes, .. } = self;
        let mut sorted: Vec<usize> = (0..parts.len()).collect();
        sorted.sort_by_cached_key(|&part| (order(part), parts[part]));
        let mut keys = Keys::of(history, frames, by);
        let mut index: HashMap<(Option<Origin>, HolderKey), usize> = HashMap::new();
        let mut groups: Vec<Holder> = Vec::new();
        let mut of_part = vec![0; parts.len()];
        for part in sorted {
            let (class, stack) = parts[part];
            let (origin, shared) = &classes[class as usize];
            let stack = stack.filter(|&stack| !history.trace().stacks.get(stack).is_empty());
            let key = shared.clone().unwrap_or_else(|| keys.key(stack));
            of_part[part] = *index.entry((*origin, key.clone())).or_insert_with(|| {
                groups.push(Holder { bytes: 0, requested: 0, count: 0, origin: *origin, key, stack });
                groups.len() - 1
            });
        }
        for group in &mut groups {
            keys.finish(&mut group.key);
        }
        Grouped { groups, of_part }
    }
}
