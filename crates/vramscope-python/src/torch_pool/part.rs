//! Requests that share their rules, their cache and their plan: those of the whole program, or of a part of it.

use std::sync::{Arc, Mutex};
use std::thread;

use vramscope::allocator::{Device, DevicePool, HistoryOptions, MemoryPool, Policy};
use vramscope::analysis::PlanSource;
use vramscope_basics::lock;

use super::auto::StepSearch;
use super::failure::Failure;

/// The rules and the plan of a part, and whether it records history from its first request on.
#[derive(Clone)]
pub(super) struct PartOptions {
    pub(super) policy: Policy,
    /// The plan that requests of each GPU follow; [`PlanSource::Recording`] is a plan of the first steps of the part itself.
    pub(super) plan: Option<PlanSource>,
    pub(super) history: Option<HistoryOptions>,
}

/// A part of the program, or all of it, with a cache of its own.
pub(super) struct Part {
    pub(super) pool: MemoryPool,
    /// The search for a step to plan, for each GPU; empty if the part does not plan its own steps.
    searches: Vec<StepSearch>,
    /// What the program records.
    history: Mutex<Option<HistoryOptions>>,
}

impl Part {
    pub(super) fn new(
        PartOptions { mut policy, plan, history }: PartOptions,
        devices: Vec<Arc<dyn Device>>,
    ) -> Result<Arc<Self>, Failure> {
        // The device's size is known at its first request.
        policy.memory_fraction = None;
        let pool = MemoryPool::new(&policy, devices).map_err(Failure::other)?;
        let mut searches = Vec::new();
        match plan {
            Some(PlanSource::Given(plan)) => {
                pool.devices().iter().for_each(|device| _ = device.follow_plan(Arc::clone(&plan)));
            }
            Some(PlanSource::Recording { share_streams }) => {
                searches = pool.devices().iter().map(|_| StepSearch::new(share_streams)).collect();
                pool.record_memory_history(&StepSearch::history()).map_err(Failure::other)?;
            }
            None => {}
        }
        let part = Self { pool, searches, history: Mutex::default() };
        if let Some(options) = history {
            part.record_history(options).map_err(Failure::other)?;
        }
        Ok(Arc::new(part))
    }

    /// Starts or stops the program's recording. While steps are searched for, all events are recorded.
    pub(super) fn record_history(&self, options: HistoryOptions) -> Result<(), String> {
        let mut history = lock(&self.history);
        *history = options.enabled.is_some().then(|| options.clone());
        let options = if self.searches.iter().any(StepSearch::continues) {
            HistoryOptions { clear_history: true, ..StepSearch::history() }
        } else {
            options
        };
        self.pool.record_memory_history(&options).map_err(|error| error.to_string())
    }

    /// The part's pool on a GPU.
    #[inline]
    pub(super) fn device(&self, device: i32) -> Option<&DevicePool> {
        self.pool.device(device)
    }

    /// Counts a request for the search for steps.
    #[inline]
    pub(super) fn count(self: &Arc<Self>, device: usize) {
        if self.searches.get(device).is_some_and(StepSearch::count) {
            self.search(device);
        }
    }

    /// Searches on another thread, so that the program goes on.
    #[cold]
    fn search(self: &Arc<Self>, device: usize) {
        let part = Arc::clone(self);
        let search = move || {
            if let (Some(search), Some(pool)) = (part.searches.get(device), part.pool.devices().get(device)) {
                part.search_once(search, pool);
            }
        };
        // Without a thread, the part has no plan.
        thread::Builder::new().name("vramscope plan".to_owned()).spawn(search).ok();
    }

    fn search_once(&self, search: &StepSearch, device: &DevicePool) {
        search.search(&self.pool, device);
        let history = lock(&self.history);
        if !search.continues() {
            let records =
                history.clone().unwrap_or(HistoryOptions { enabled: None, ..StepSearch::history() });
            let options = HistoryOptions { device: Some(device.device_id()), ..records };
            self.pool.record_memory_history(&options).ok();
        }
    }
}
