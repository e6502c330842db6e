//! Allocations in groups by what they share, each in one look: the engine of every answer that adds up allocations of a stretch.

use hashbrown::HashMap;
use vramscope_trace::{Category, StackId};

use crate::frames::Frames;
use crate::history::{Allocation, History, Origin};
use crate::holders::{By, HolderKey, Keys, Known};

/// A group of allocations.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    /// How they are known, as of a [`Holder`](crate::Holder).
    pub origin: Option<Origin>,
    /// What they share.
    pub key: HolderKey,
    /// The stack of its first part.
    pub stack: Option<StackId>,
}

/// Parts put together.
pub(crate) struct Parted {
    pub groups: Vec<Group>,
    /// The position of each part's group.
    pub of_part: Vec<usize>,
}

/// Parts of groups, by class and stack: few of both stand behind many allocations, and what groups share is dear to find out. Parts are
/// numbered from 0 in the order in which they are first met.
pub(crate) struct Parts<'h, K> {
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
    parts: Vec<(u32, Option<StackId>)>,
}

const NONE: u32 = u32::MAX;

/// The classes where stacks tell the group.
const ORIGINS: [Origin; 3] = [Origin::Recorded, Origin::EndState, Origin::FreeOnly];

impl<'h, K: Known> Parts<'h, K> {
    pub(crate) fn of(history: &'h History, known: &'h K, by: By) -> Self {
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

    /// The number of the part that an allocation belongs to.
    #[inline]
    pub(crate) fn part(&mut self, id: usize, a: &Allocation) -> usize {
        let stack = a.stack.map_or(NONE, |stack| stack.index() as u32);
        if a.origin == Origin::Recorded
            && let Some(&part) = self.recorded.get(stack as usize)
            && part != NONE
        {
            return part as usize;
        }
        let class = self.class(id, a);
        let Self { index, parts, .. } = self;
        let part = *index.entry((class, stack)).or_insert_with(|| {
            parts.push((class, a.stack));
            (parts.len() - 1) as u32
        });
        if a.origin == Origin::Recorded
            && let Some(known) = self.recorded.get_mut(stack as usize)
        {
            *known = part;
        }
        part as usize
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

    /// The groups that the parts make up. The first part of each, in the given order, names its stack.
    pub(crate) fn grouped<O: Ord>(self, frames: &Frames, order: impl Fn(usize) -> O) -> Parted {
        let Self { history, by, parts, classes, .. } = self;
        let mut sorted: Vec<usize> = (0..parts.len()).collect();
        sorted.sort_by_cached_key(|&part| (order(part), parts[part]));
        let mut keys = Keys::of(history, frames, by);
        let mut index: HashMap<(Option<Origin>, HolderKey), usize> = HashMap::new();
        let mut groups: Vec<Group> = Vec::new();
        let mut of_part = vec![0; parts.len()];
        for part in sorted {
            let (class, stack) = parts[part];
            let (origin, shared) = &classes[class as usize];
            let stack = stack.filter(|&stack| !history.trace().stacks.get(stack).is_empty());
            let key = shared.clone().unwrap_or_else(|| keys.key(stack));
            of_part[part] = *index.entry((*origin, key.clone())).or_insert_with(|| {
                groups.push(Group { origin: *origin, key, stack });
                groups.len() - 1
            });
        }
        for group in &mut groups {
            keys.finish(&mut group.key);
        }
        Parted { groups, of_part }
    }
}
