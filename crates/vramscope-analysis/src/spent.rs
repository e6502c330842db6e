//! What a stretch of a recording did to the allocated bytes: what was allocated in it, what was freed, what was temporary and what it
//! left behind, in groups.

use std::cmp::Reverse;

use hashbrown::HashMap;
use vramscope_trace::{Category, StackId};

use crate::amount::Amount;
use crate::cancel::Cancel;
use crate::frames::Frames;
use crate::history::{Allocation, History, Origin};
use crate::holders::{By, HolderKey, Keys, Known};
use crate::stretch::Stretch;

/// What some allocations did in a stretch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    /// What was allocated when it began.
    pub before: Amount,
    /// What was allocated in it.
    pub allocated: Amount,
    /// What was freed in it of that which was there before.
    pub freed_before: Amount,
    /// What was allocated in it and freed in it, too.
    pub temporary: Amount,
    /// What was allocated at the moment at which most of the device was.
    pub at_highest: Amount,
}

impl Spent {
    /// All that was freed in it.
    #[must_use]
    pub fn freed(&self) -> Amount {
        self.freed_before.plus(self.temporary)
    }

    /// What was allocated in it and is still there when it ends.
    #[must_use]
    pub fn survived(&self) -> Amount {
        self.allocated.minus(self.temporary)
    }

    /// What is allocated when it ends.
    #[must_use]
    pub fn after(&self) -> Amount {
        self.before.minus(self.freed_before).plus(self.survived())
    }

    fn add(&mut self, other: &Self) {
        self.before.add(other.before);
        self.allocated.add(other.allocated);
        self.freed_before.add(other.freed_before);
        self.temporary.add(other.temporary);
        self.at_highest.add(other.at_highest);
    }

    /// Takes in one allocation of the stretch.
    #[inline]
    fn take(&mut self, a: &Allocation, stretch: &Stretch) {
        let one = Amount { bytes: a.size, requested: a.requested, count: 1 };
        let was_there = a.from <= stretch.from;
        let is_gone = a.freed <= stretch.to;
        let of = if was_there { &mut self.before } else { &mut self.allocated };
        of.add(one);
        if is_gone {
            let of = if was_there { &mut self.freed_before } else { &mut self.temporary };
            of.add(one);
        }
        if a.is_allocated_at(stretch.highest.moment) {
            self.at_highest.add(one);
        }
    }
}

/// What a group of allocations did in a stretch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpentGroup {
    /// How they are known, as of a [`Holder`](crate::Holder).
    pub origin: Option<Origin>,
    /// What they share.
    pub key: HolderKey,
    /// The stack that allocated most in it; where it allocated nothing, that which held most.
    pub stack: Option<StackId>,
    /// What they did.
    pub spent: Spent,
}

/// What a stretch did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpentBy {
    /// All allocations together.
    pub all: Spent,
    /// Those together that were asked for.
    pub taken: Spent,
    /// The same in groups: what allocated most first.
    pub groups: Vec<SpentGroup>,
}

/// What a stretch of `history` did, in groups of those allocations that `takes` takes by their numbers. `None` where the answer is no
/// longer wanted.
pub fn spent_by(
    history: &History,
    frames: &Frames,
    known: &impl Known,
    stretch: &Stretch,
    by: By,
    takes: &dyn Fn(usize) -> bool,
    cancel: &Cancel,
) -> Option<SpentBy> {
    let mut parts = Parts::of(history, known, by);
    let mut left_out = Spent::default();
    for (step, &id) in stretch.allocations.iter().enumerate() {
        if cancel.is_cancelled_at(step) {
            return None;
        }
        let a = &history.allocations[id as usize];
        let part = if takes(id as usize) { parts.part(id as usize, a) } else { &mut left_out };
        part.take(a, stretch);
    }
    let groups = parts.groups(frames);
    let mut taken = Spent::default();
    groups.iter().for_each(|group| taken.add(&group.spent));
    let mut all = taken;
    all.add(&left_out);
    Some(SpentBy { all, taken, groups })
}

/// Sums by class and stack: few of both stand behind many allocations, and what groups share is dear to find out.
struct Parts<'h, K> {
    history: &'h History,
    known: &'h K,
    by: By,
    /// What the allocations of each class share; where the stack tells it, `None`.
    classes: Vec<(Option<Origin>, Option<HolderKey>)>,
    of_key: HashMap<HolderKey, u32>,
    /// The class of allocations that are [alike](Known::alike).
    of_alike: Vec<u32>,
    /// The part of each class and stack.
    index: HashMap<(u32, u32), u32>,
    /// The part of what was recorded by stack, where stacks tell the group: most allocations are found here.
    recorded: Vec<u32>,
    parts: Vec<(u32, Option<StackId>, Spent)>,
}

const NONE: u32 = u32::MAX;

/// The classes where stacks tell the group.
const ORIGINS: [Origin; 3] = [Origin::Recorded, Origin::EndState, Origin::FreeOnly];

impl<'h, K: Known> Parts<'h, K> {
    fn of(history: &'h History, known: &'h K, by: By) -> Self {
        let by_stack = matches!(by, By::Stack | By::Line | By::Function | By::File | By::Module);
        let classes = match by {
            _ if by_stack => ORIGINS.map(|origin| (Some(origin), None)).into(),
            By::Category => Category::ALL.map(|of| (None, Some(HolderKey::Category(of)))).into(),
            _ => Vec::new(),
        };
        let stacks = if by_stack { history.trace().stacks.len() } else { 0 };
        Self {
            history,
            known,
            by,
            classes,
            of_key: HashMap::new(),
            of_alike: Vec::new(),
            index: HashMap::new(),
            recorded: vec![NONE; stacks],
            parts: Vec::new(),
        }
    }

    /// The sums that an allocation belongs to.
    #[inline]
    fn part(&mut self, id: usize, a: &Allocation) -> &mut Spent {
        let stack = a.stack.map_or(NONE, |stack| stack.index() as u32);
        if a.origin == Origin::Recorded
            && let Some(&part) = self.recorded.get(stack as usize)
            && part != NONE
        {
            return &mut self.parts[part as usize].2;
        }
        let class = self.class(id, a);
        let Self { index, parts, .. } = self;
        let part = *index.entry((class, stack)).or_insert_with(|| {
            parts.push((class, a.stack, Spent::default()));
            (parts.len() - 1) as u32
        });
        if a.origin == Origin::Recorded
            && let Some(known) = self.recorded.get_mut(stack as usize)
        {
            *known = part;
        }
        &mut self.parts[part as usize].2
    }

    fn class(&mut self, id: usize, a: &Allocation) -> u32 {
        let key = match self.by {
            By::Category => {
                let of = self.known.category(id);
                return Category::ALL.iter().position(|&category| category == of).unwrap_or_default() as u32;
            }
            By::Step => HolderKey::Step(self.known.step(id)),
            By::Stream => HolderKey::Stream(a.stream),
            By::Size => HolderKey::of_size(a.size),
            By::Pool | By::Layer => return self.class_of_alike(id),
            By::Stack | By::Line | By::Function | By::File | By::Module => {
                return ORIGINS.iter().position(|&origin| origin == a.origin).unwrap_or_default() as u32;
            }
        };
        self.class_of_key(key)
    }

    fn class_of_alike(&mut self, id: usize) -> u32 {
        let alike = self.known.alike(id).map(|number| number as usize);
        if let Some(&class) =
            alike.and_then(|number| self.of_alike.get(number)).filter(|&&class| class != NONE)
        {
            return class;
        }
        let key = match self.by {
            By::Pool => HolderKey::Pool(self.known.pool(id)),
            _ => HolderKey::Layer(self.known.layer(id)),
        };
        let class = self.class_of_key(key);
        if let Some(number) = alike {
            if self.of_alike.len() <= number {
                self.of_alike.resize(number + 1, NONE);
            }
            self.of_alike[number] = class;
        }
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

    /// The groups, what allocated most first. The stack of each is that of its largest part.
    fn groups(mut self, frames: &Frames) -> Vec<SpentGroup> {
        self.parts.sort_by_key(|(class, stack, spent)| (order(spent), *class, *stack));
        let mut keys = Keys::of(self.history, frames, self.by);
        let mut index: HashMap<(Option<Origin>, HolderKey), usize> = HashMap::new();
        let mut groups: Vec<SpentGroup> = Vec::new();
        for (class, stack, spent) in self.parts {
            let (origin, shared) = &self.classes[class as usize];
            let with_frames = stack.filter(|&stack| !self.history.trace().stacks.get(stack).is_empty());
            let key = shared.clone().unwrap_or_else(|| keys.key(with_frames));
            let number = *index.entry((*origin, key.clone())).or_insert_with(|| {
                groups.push(SpentGroup { origin: *origin, key, stack: with_frames, spent: Spent::default() });
                groups.len() - 1
            });
            groups[number].spent.add(&spent);
        }
        for group in &mut groups {
            keys.finish(&mut group.key);
        }
        groups.sort_by(|a, b| {
            order(&a.spent).cmp(&order(&b.spent)).then_with(|| (a.origin, &a.key).cmp(&(b.origin, &b.key)))
        });
        groups
    }
}

/// What allocated most first; of what allocated as much, what held most.
fn order(spent: &Spent) -> (Reverse<u64>, Reverse<u64>, Reverse<u64>) {
    (Reverse(spent.allocated.bytes), Reverse(spent.at_highest.bytes), Reverse(spent.before.bytes))
}

/// A group in a stretch, and in one before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpentChange {
    /// The group, named as it is in the later stretch where it is there.
    pub group: SpentGroup,
    /// What it did in the stretch before.
    pub before: Spent,
}

/// Groups of a stretch beside those of one before: what allocated most more than before first, what allocated most less last.
#[must_use]
pub fn spent_changes(now: Vec<SpentGroup>, before: Vec<SpentGroup>) -> Vec<SpentChange> {
    let shared = |group: &SpentGroup| (group.origin, group.key.clone());
    let index: HashMap<_, usize> = now.iter().enumerate().map(|(i, group)| (shared(group), i)).collect();
    let mut changes: Vec<SpentChange> =
        now.into_iter().map(|group| SpentChange { group, before: Spent::default() }).collect();
    for group in before {
        match index.get(&shared(&group)) {
            Some(&i) => changes[i].before = group.spent,
            None => {
                let before = group.spent;
                changes.push(SpentChange { group: SpentGroup { spent: Spent::default(), ..group }, before });
            }
        }
    }
    let grown = |change: &SpentChange| {
        i128::from(change.group.spent.allocated.bytes) - i128::from(change.before.allocated.bytes)
    };
    changes.sort_by_key(|change| Reverse(grown(change)));
    changes
}
