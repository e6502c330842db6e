//! The complete analysis of one device, and the summary of an interval.
//!
//! - `counter_walk`: all results that need the counters at every moment, in one walk.
//! - `diagnosis`: causes of failed requests beyond the allocator's state (leaks, settings), and remedies.
//! - `interval`: the summary of an interval of events.
//! - `unsplit`: the effect of a setting, by a replay without it.

mod counter_walk;
mod diagnosis;
mod interval;
mod unsplit;

use std::sync::Arc;

use regex::Regex;
use vramscope_trace::{DeviceTrace, Trace};

use crate::basics::at_once;
use crate::categories::{AllocationCategories, ReasonGroup};
use crate::estimates::Estimates;
use crate::findings::{
    AllocatorFinding, Evidence, Fix, Fragmentation, Growing, IdleMemory, LeakSuspect, OomExplanation,
    ReferredTensor, UnbackedBytes, UnexplainedOoms, largest_request, ooms, referred_tensors, stranded_cache,
};
use crate::groups::{
    By, CallTree, CollectiveUse, DeviceUse, Holder, HostMemory, KnownProperties, Layer, LibraryUse,
    PrivatePoolUse, ServingMemory, by_line, call_tree, collectives, holders_without_stacks, layers,
    libraries, pools_of, private_pools, serving_memory,
};
use crate::history::{Counters, EndState, History, Layout, Moment, Peaks, Quality, RecordedAllocation, When};
use crate::regions::Region;
use crate::replay::{BestSetting, LessReserved};
use crate::stacks::{Frames, StackFilter};
use crate::steps::Steps;
use counter_walk::CounterWalk;
pub use diagnosis::Remedy;
use diagnosis::{Diagnosis, growth_per_step};
pub use interval::{IntervalOptions, IntervalSummary};
use vramscope_basics::Cancel;

/// The moment of a summary, with the grouping and the filter of its holders.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The moment that the summary shows; by default, the peak of allocated bytes.
    pub at: Option<When>,
    /// The grouping of holders; `None` groups by stack.
    pub by: Option<By>,
    /// Includes only stacks with a frame that this regular expression matches, as `file:line function`.
    pub filter: Option<Regex>,
    /// Bytes that the program may use on the device, with its CUDA context: changes are then [estimated](Summary::estimates).
    pub budget: Option<u64>,
}

/// The analysis of one device's recording.
#[derive(Debug, Clone)]
pub struct Summary {
    /// The device index.
    pub device: i64,
    /// Number of recorded events.
    pub events: usize,
    /// Times of the first and the last event, in microseconds since the Unix epoch.
    pub time_us: Option<(i64, i64)>,
    /// The peak of each counter.
    pub peaks: Peaks,
    /// The moment of `counters`, `holders`, `tree`, `pools` and `streams`.
    pub moment: Moment,
    /// Bytes of each kind at that moment.
    pub counters: Counters,
    /// The holders of the allocated bytes, most first.
    pub holders: Vec<Holder>,
    /// The holders as a call tree.
    pub tree: CallTree,
    /// The holders of the allocated bytes, by pool.
    pub pools: Vec<Holder>,
    /// The holders of the allocated bytes, by stream.
    pub streams: Vec<Holder>,
    /// The allocated bytes by category, most first; see [`AllocationCategories`].
    pub categories: Vec<Holder>,
    /// The reasons for the categories, most bytes first.
    pub reasons: Vec<ReasonGroup>,
    /// The bytes of each module, if the recording has modules.
    pub layers: Vec<Layer>,
    /// Memory of the device beside PyTorch's allocator at that moment, by library; `None` if the recording does not have it.
    pub libraries: Option<Vec<LibraryUse>>,
    /// The driver's count of the device's memory at that moment; `None` if the recording does not have it.
    pub device_use: Option<DeviceUse>,
    /// The steps of training or serving, if the program repeats itself.
    pub steps: Steps,
    /// Bytes that the filter excludes from `holders` and `tree`.
    pub filtered_out: u64,
    /// Allocated bytes before the first event.
    pub preexisting: u64,
    /// Totals over the whole run by the user's line, most bytes first.
    pub churn: Vec<Holder>,
    /// Suspected leaks.
    pub leaks: Vec<LeakSuspect>,
    /// Allocations that are live while nothing uses them; `None` if the recording has no accesses.
    pub idle: Option<IdleMemory>,
    /// Known problems of programs with a caching allocator, most bytes first.
    pub findings: Vec<AllocatorFinding>,
    /// Tensors whose referrers the program named, most bytes first. With [`Options::at`], only those allocated at `moment`.
    pub referred: Vec<ReferredTensor>,
    /// The host memory of the process over time; only of the first device of a log of the recorder.
    pub host_memory: Option<HostMemory>,
    /// The buffers of collectives at `moment`, most bytes first.
    pub collectives: Vec<CollectiveUse>,
    /// The private pools at the end: of `torch.cuda.MemPool`, and of CUDA graphs.
    pub private_pools: Vec<PrivatePoolUse>,
    /// The memory of a program with a KV cache, in parts; `None` for any other program.
    pub serving: Option<ServingMemory>,
    /// Fragmentation at `moment`; `None` if the recording has no request to compute it for.
    pub fragmentation: Option<Fragmentation>,
    /// Fragmentation at the end of the recording.
    pub fragmentation_at_end: Option<Fragmentation>,
    /// The first twenty out-of-memory events, with explanations.
    pub ooms: Vec<OomExplanation>,
    /// The further out-of-memory events, if there are any.
    pub unexplained_ooms: Option<UnexplainedOoms>,
    /// The settings to change after an out-of-memory event.
    pub best_setting: Option<BestSetting>,
    /// Other settings under which a run without a failed request reserves clearly less.
    pub less_reserved: Option<LessReserved>,
    /// Another change after an out-of-memory event, if it removes the main cause.
    pub remedy: Option<Remedy>,
    /// Changes of the program that its leak or its failed request points to, the most useful first.
    pub fixes: Vec<Fix>,
    /// Allocated bytes that the program gains per step. `None` if it gains none, or if no steps are known.
    pub growth_per_step: Option<u64>,
    /// The peaks with changes to the program, with a [budget](Options::budget) or after an out-of-memory event; `None` if the recording
    /// does not show training.
    pub estimates: Option<Estimates>,
    /// The memory that each annotated region of the program needed.
    pub regions: Vec<Region>,
    /// Peaks over equal shares of the events.
    pub timeline: Vec<Counters>,
    /// Sums over the end state.
    pub end: EndState,
    /// How accurate these numbers are, and the reasons why not more.
    pub quality: Quality,
}

impl Summary {
    /// Analyzes the device at `position` in [`Trace::devices`]. `frames` must be those of `trace`.
    ///
    /// # Panics
    /// If the trace has no device at `position`.
    pub fn of(trace: &Arc<Trace>, position: usize, frames: &Frames, options: &Options) -> Self {
        Self::of_history(&History::replayed(trace, position), frames, options)
    }

    /// Analyzes the device of `history`. `frames` must be those of the history's trace.
    pub fn of_history(history: &History, frames: &Frames, options: &Options) -> Self {
        Self::answer(history, frames, options, &Cancel::default())
    }

    /// Analyzes the device of `history`; returns `None` if cancelled. `frames` must be those of the history's trace.
    pub fn of_history_unless(
        history: &History,
        frames: &Frames,
        options: &Options,
        cancel: &Cancel,
    ) -> Option<Self> {
        let answers = Self::answer(history, frames, options, cancel);
        (!cancel.is_cancelled()).then_some(answers)
    }

    /// Computes the analysis; after a cancellation, expensive parts are left out.
    fn answer(history: &History, frames: &Frames, options: &Options, cancel: &Cancel) -> Self {
        let (trace, device) = (history.trace(), history.device());
        let filter = options.filter.as_ref().map(|f| StackFilter::new(trace, f));
        let takes = |a: &&RecordedAllocation| filter.as_ref().is_none_or(|f| f.takes(a.stack));
        // One core computes the counters over time, another the totals of each stack and the categories.
        let (walked, (churn, growing, categories)) = join(
            history,
            || CounterWalk::of(history, cancel),
            || {
                let growing = Growing::of(history, frames);
                let churn = by_line(history, frames, history.recorded().filter(takes));
                (churn, growing, AllocationCategories::of(history))
            },
        );
        let CounterWalk { peaks, regions, timeline, repeats } = walked;
        let mut leaks = growing.suspects(history, frames, repeats, || &categories);
        leaks.retain(|l| filter.as_ref().is_none_or(|f| f.takes(Some(l.stack))));

        let moment = options.at.map_or(peaks.allocated.moment, |when| history.moment(when));
        let ((mut ooms, unexplained_ooms, request, layouts), steps) = join(
            history,
            || {
                let (ooms, unexplained) = ooms(history, frames);
                let layouts = Layout::at_each(history, [moment, Moment::START, history.end()]);
                (ooms, unexplained, largest_request(history), layouts)
            },
            || Steps::of(history, &categories),
        );
        steps.measure_leaks(history, &mut leaks);
        let [layout, start, end] = layouts;
        let growth_per_step = growth_per_step(&steps, &leaks);
        let Diagnosis { best_setting, remedy, findings: found, less_reserved } =
            Diagnosis::of(history, frames, &mut ooms, &leaks, &peaks, growth_per_step, cancel);
        let fixes = Evidence::fixes(
            history,
            frames,
            &categories,
            &steps,
            peaks.allocated.bytes,
            ooms.first(),
            &leaks,
        );
        let is_estimated = options.budget.is_some() || !ooms.is_empty();
        let estimates = is_estimated
            .then(|| Estimates::of(history, &categories, &steps, options.budget, cancel))
            .flatten();
        let known = KnownProperties::at(history, &layout).with(categories, steps);
        let idle = IdleMemory::of(history, frames, &known, |a| takes(&a));
        let held = |by| {
            let ids = layout.allocated_ids().filter(|&id| takes(&&history.allocations[id]));
            holders_without_stacks(history, frames, &known, ids, by)
        };
        let by_stack = held(By::Stack);
        let tree = call_tree(trace, frames, &by_stack);
        let counters = layout.counters();
        // After the device's last event, libraries go on.
        let library_time = time_of(device, moment).filter(|_| options.at != Some(When::End));
        let filtered_out = counters.allocated - by_stack.iter().map(|h| h.bytes).sum::<u64>();
        let holders = match options.by {
            None | Some(By::Stack) => by_stack,
            Some(by) => held(by),
        };
        let all = |by| holders_without_stacks(history, frames, &known, layout.allocated_ids(), by);
        let pools = pools_of(history);
        let pool_of = |id: usize| pools.get(id).copied().flatten();
        let private_pools = private_pools(history, pool_of);
        let collectives = collectives(history, frames, moment, pool_of);
        let serving = serving_memory(history, known.categories(), pool_of);
        let stranded = stranded_cache(history, &end).map(AllocatorFinding::StrandedCache);
        let unbacked = UnbackedBytes::of(history, &peaks).map(AllocatorFinding::UnbackedBytes);
        let late = ooms.iter().filter_map(|oom| oom.late_block).map(AllocatorFinding::LateBlock);
        let mut findings: Vec<AllocatorFinding> =
            stranded.into_iter().chain(late).chain(found).chain(unbacked).collect();
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.bytes()));
        let fragmentation = |layout| request.map(|r| Fragmentation::in_layout(history, layout, r));
        Self {
            device: device.device,
            events: device.events.len(),
            time_us: time_span(device),
            peaks,
            moment,
            counters,
            tree,
            holders,
            pools: all(By::Pool),
            streams: all(By::Stream),
            categories: all(By::Category),
            reasons: known.categories().reasons(layout.allocated()),
            layers: layers(known.categories(), layout.allocated().filter(takes)),
            libraries: libraries(trace, device.device, library_time),
            device_use: DeviceUse::at(history, moment, options.at),
            steps: known.into_steps(),
            filtered_out,
            preexisting: start.counters().allocated,
            churn,
            leaks,
            idle,
            findings,
            host_memory: (history.position() == 0).then(|| HostMemory::of(trace)).flatten(),
            collectives,
            private_pools,
            serving,
            referred: referred_tensors(history, options.at.map(|_| moment), |a| takes(&a)),
            fragmentation: fragmentation(&layout),
            fragmentation_at_end: fragmentation(&end),
            ooms,
            unexplained_ooms,
            best_setting,
            less_reserved,
            remedy,
            fixes,
            growth_per_step,
            estimates,
            regions,
            timeline,
            end: EndState::of(device),
            quality: history.quality,
        }
    }
}

/// With fewer events, the computation takes less time than starting a thread.
const WORTH_A_THREAD: usize = 10_000;

/// Computes two results for `history`, in parallel if it is long.
fn join<A, B: Send>(history: &History, a: impl FnOnce() -> A, b: impl FnOnce() -> B + Send) -> (A, B) {
    if history.device().events.len() < WORTH_A_THREAD {
        return (a(), b());
    }
    let (b, a) = at_once(b, a);
    (a, b)
}

/// The time of a moment, in microseconds since the Unix epoch.
fn time_of(device: &DeviceTrace, moment: Moment) -> Option<i64> {
    device.events.time(moment.event()?)
}

fn time_span(device: &DeviceTrace) -> Option<(i64, i64)> {
    let events = &device.events;
    let last = events.len().checked_sub(1)?;
    Some((events.get(0).time_us?, events.get(last).time_us?))
}
