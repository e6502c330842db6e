//! Properties of allocations beyond the history itself.

use std::cell::OnceCell;
use std::sync::Arc;

use vramscope_trace::{Category, PoolId};

use crate::categories::AllocationCategories;
use crate::history::{History, Layout, for_each_with_pool};
use crate::steps::Steps;

/// Properties of a history's allocations beyond the history itself. Allocations are given by their index in
/// [`History::allocations`]. By default, nothing is known.
pub trait AllocationProperties {
    /// Returns the private pool.
    fn pool(&self, _allocation: usize) -> Option<PoolId> {
        None
    }

    /// Returns the category.
    fn category(&self, _allocation: usize) -> Category {
        Category::Unknown
    }

    /// Returns the path of the module that made the allocation.
    fn layer(&self, _allocation: usize) -> Option<Arc<str>> {
        None
    }

    /// Returns the steps of the program; `None` if unknown.
    fn steps(&self) -> Option<&Steps> {
        None
    }

    /// Returns a number that the allocation shares only with allocations of the same stream, pool and module, if there is one.
    fn alike(&self, _allocation: usize) -> Option<u32> {
        None
    }
}

/// No properties beyond the history; enough for grouping by stack, stream or size.
#[derive(Debug, Clone, Copy)]
pub struct NoProperties;

impl AllocationProperties for NoProperties {}

/// The properties that follow from a history, each computed on first use.
pub(crate) struct KnownProperties<'h> {
    history: &'h History,
    /// Returns the pool of the segment around an allocation.
    pool_around: Box<dyn Fn(usize) -> Option<PoolId> + 'h>,
    categories: OnceCell<AllocationCategories>,
    steps: OnceCell<Steps>,
}

impl<'h> KnownProperties<'h> {
    /// Takes pools that were not recorded from the segments of `layout`.
    pub(crate) fn at(history: &'h History, layout: &'h Layout<'h>) -> Self {
        let around = |id: usize| layout.range_around(history.allocations[id].address)?.pool;
        Self::of(history, Box::new(around))
    }

    /// Takes pools that were not recorded from the segments at the beginning of each allocation.
    pub(crate) fn throughout(history: &'h History) -> Self {
        let pools = OnceCell::new();
        let compute = || {
            let mut pools = vec![None; history.allocations.len()];
            for_each_with_pool(history, |id, around| pools[id] = around);
            pools
        };
        Self::of(history, Box::new(move |id| pools.get_or_init(compute)[id]))
    }

    fn of(history: &'h History, pool_around: Box<dyn Fn(usize) -> Option<PoolId> + 'h>) -> Self {
        Self { history, pool_around, categories: OnceCell::new(), steps: OnceCell::new() }
    }

    /// Sets categories and steps that are already computed.
    pub(crate) fn with(self, categories: AllocationCategories, steps: Steps) -> Self {
        Self { categories: categories.into(), steps: steps.into(), ..self }
    }

    pub(crate) fn into_steps(self) -> Steps {
        self.steps.into_inner().unwrap_or_default()
    }

    pub(crate) fn categories(&self) -> &AllocationCategories {
        self.categories.get_or_init(|| AllocationCategories::of(self.history))
    }

    pub(crate) fn steps(&self) -> &Steps {
        self.steps.get_or_init(|| Steps::of(self.history, self.categories()))
    }
}

impl AllocationProperties for KnownProperties<'_> {
    fn pool(&self, allocation: usize) -> Option<PoolId> {
        let tags = self.history.allocations[allocation].tags;
        let recorded = tags.and_then(|tags| self.history.trace().tags.get(tags).pool);
        recorded.or_else(|| (self.pool_around)(allocation))
    }

    fn category(&self, allocation: usize) -> Category {
        self.categories().category(&self.history.allocations[allocation])
    }

    fn layer(&self, allocation: usize) -> Option<Arc<str>> {
        self.categories().layer(&self.history.allocations[allocation]).cloned()
    }

    fn steps(&self) -> Option<&Steps> {
        Some(self.steps())
    }
}
