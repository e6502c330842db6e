//! Sentences about findings, shared by the text report and the page.

use vramscope_analysis::{
    CapacityFrom, DeviceReplay, FittingGpu, HolderKey, IdleFinding, IdleKind, IdleMemory, PhaseFrom, Pin,
    Pins, PlanReplay, RecordedPlan, ReplayLimitation, StepPhase, Steps, StepsFrom, UnexplainedOoms,
    UnusableBlocks,
};
use vramscope_trace::{Category, TensorNote};

pub use crate::causes::{
    MainCause, changes_after_oom, nearest, oom_advice, oom_cause, oom_verdict, recorded_conf,
};

use crate::advice::Advice;
use crate::causes::{capitalized, setting_name};
use crate::names::{Names, category, kind, stream, unusable};
use crate::shown::Shown;
use vramscope_basics::units::{bytes, count, counted, duration};

/// The free blocks that could not serve a failed request, and why.
pub fn unusable_blocks(u: &UnusableBlocks) -> String {
    format!(
        "{} unusable, in {} {}; the largest is {} in the {} on the {}",
        bytes(u.bytes),
        counted(u.blocks as u64, "free block"),
        unusable(u.why),
        bytes(u.largest.size),
        kind(u.largest.kind),
        stream(u.largest.stream)
    )
}

/// The out-of-memory events that are not explained one by one.
pub fn unexplained_ooms(ooms: &UnexplainedOoms) -> String {
    let UnexplainedOoms { first, last, largest, .. } = ooms;
    format!(
        "and {} without an explanation, from event {} to event {}. The largest request among them, of {}, failed at event {}.",
        counted(ooms.count as u64, "more out-of-memory event"),
        count(first.event),
        count(last.event),
        bytes(largest.bytes),
        count(largest.event)
    )
}

/// The total free memory in holes between blocks; introduces the sentences of [`pin`].
pub fn pinned(pins: &Pins) -> String {
    let both = if pins.lines.len() > 1 { " A hole between blocks of two lines counts for both." } else { "" };
    format!(
        "{} of free memory is in {}, kept apart by blocks between them.{both}",
        bytes(pins.bytes),
        counted(pins.holes, "hole")
    )
}

/// The free memory that the blocks of a line keep apart, and the largest hole without these blocks, in a sentence.
pub fn pin(names: &Names<'_>, pin: &Pin) -> String {
    let alone = match pin.alone {
        0 => String::new(),
        all if all == pin.bytes => ", all of it in segments without blocks of other lines".to_owned(),
        part => format!(", {} of it in segments without blocks of other lines", bytes(part)),
    };
    format!(
        "{} pins {} of free memory in {}{alone}: without its {} ({}) next to them, the largest hole would be {}",
        names.pin(pin),
        bytes(pin.bytes),
        counted(pin.holes, "hole"),
        counted(pin.blocks, "block"),
        bytes(pin.block_bytes),
        bytes(pin.joined)
    )
}

/// The smallest GPU on which a run fits, in a sentence.
pub fn smallest_gpu(FittingGpu { gpu, overhead, outcome }: &FittingGpu) -> String {
    format!(
        "The smallest GPU that fits: {} ({}, {}), with {} for the CUDA context and other processes; reserved bytes then peak at {}.",
        gpu.name,
        gpu.full,
        bytes(gpu.total_bytes),
        bytes(*overhead),
        bytes(outcome.statistics.reserved.peak)
    )
}

/// The size of the replay's device and its source, in a sentence.
pub fn device_size(d: &DeviceReplay, advice: &Advice) -> String {
    match d.capacity {
        None => format!(
            "The device size is not recorded: set it with {} to check whether the run fits.",
            advice.capacity
        ),
        Some((c, CapacityFrom::Recording)) if d.limitations.contains(&ReplayLimitation::GuessedLimit) => {
            format!(
                "The recording ran out of memory at a limit on reserved bytes; a device of {} is assumed.",
                bytes(c.total)
            )
        }
        Some((c, CapacityFrom::Recording)) => format!(
            "The device size is inferred from the recording: the allocator had {} when it first ran out of memory.",
            bytes(c.total.saturating_sub(c.overhead))
        ),
        Some((c, CapacityFrom::Given)) if c.overhead == 0 => format!(
            "The device has {}, all of it available to the allocator; a CUDA context takes some hundred MiB, which you can subtract with {}.",
            bytes(c.total),
            advice.overhead
        ),
        Some((c, CapacityFrom::Given)) => format!(
            "The device has {}, of which {} is not available to the allocator.",
            bytes(c.total),
            bytes(c.overhead)
        ),
    }
}

/// Lower bounds on the memory of any allocator: a sentence about the peak of active bytes, and one about the best packing and whether
/// it is optimal.
pub fn floors(d: &DeviceReplay) -> [String; 2] {
    let active = bytes(d.lower_bounds.active);
    let packed = bytes(d.lower_bounds.packed);
    [
        format!("{active} is the peak of bytes in use: no allocator can need less."),
        if d.lower_bounds.is_optimal {
            format!("{packed} is the optimal packing, for an allocator that knows every lifetime in advance.")
        } else {
            format!(
                "{packed} is the best packing found, for an allocator that knows every lifetime in advance; a better one could save at most {}.",
                bytes(d.lower_bounds.packed.saturating_sub(d.lower_bounds.active))
            )
        },
    ]
}

/// What a plan has, how much of the program followed it, and whether it helps: one sentence each. Empty without a plan.
pub fn plan(d: &DeviceReplay) -> Vec<String> {
    let Some(p) = &d.plan else { return Vec::new() };
    let (startup, step) = (p.plan.startup().len() as u64, p.plan.step().len() as u64);
    let repeats = match p.made.as_ref().map(|made| (made.step, made.steps)) {
        Some((Some(n), steps)) => format!(
            "{} up to step {} of {}, and {} that repeat from there",
            counted(startup, "request"),
            count(n as u64 + 1),
            count(steps as u64),
            count(step)
        ),
        Some((None, _)) => format!("{}; no step repeats", counted(startup, "request")),
        None => format!("{} before its step, and {} that repeat", counted(startup, "request"), count(step)),
    };
    let mut told = vec![format!("The plan has {repeats}. Its segments have {}.", bytes(p.plan.bytes()))];
    if p.plan.shares_streams() {
        let each = if step > 0 { " of each step" } else { "" };
        told.push(format!(
            "Streams share them. {}{each} get memory that another stream used last, so their streams wait for that one on the GPU, and may \
             overlap less.",
            counted(p.plan.waits() as u64, "request")
        ));
    }
    let (all, planned) = (p.usage.all(), p.usage.planned);
    told.push(format!(
        "{} of {} and {} of their bytes are at planned places.",
        percent(planned.requests, all.requests),
        counted(all.requests, "request"),
        percent(planned.bytes, all.bytes)
    ));
    let reasons = [
        (p.usage.differing, "differ from the plan in size, order or pool"),
        (p.usage.left, "have lifetimes that do not repeat"),
        (p.usage.in_use, "found their places in use"),
        (p.usage.no_memory, "had no memory at their places"),
    ];
    let reasons = reasons.iter().filter(|(served, _)| served.requests > 0);
    let reasons: Vec<String> = reasons
        .map(|(served, why)| format!("{} ({}) {why}", count(served.requests), bytes(served.bytes)))
        .collect();
    if !reasons.is_empty() {
        told.push(format!("The others are served as without a plan: {}.", reasons.join("; ")));
    }
    told.push(plan_verdict(d, p));
    told.extend(p.made.as_ref().and_then(varying_steps));
    told
}

/// A warning about a plan whose recording has steps that vary, in two sentences.
pub fn varying_steps(made: &RecordedPlan) -> Option<String> {
    made.varies().then(|| {
        format!(
            "The steps vary: {} of {} make the requests of the planned step. Another run leaves this plan, and is then served by the rules \
             alone, so use a setting instead.",
            count(made.alike as u64),
            count(made.steps as u64)
        )
    })
}

/// Compares a plan with the best setting.
fn plan_verdict(d: &DeviceReplay, p: &PlanReplay) -> String {
    let peak = p.outcome.statistics.reserved.peak;
    if !p.outcome.fits() {
        return "With this plan the run does not fit.".to_owned();
    }
    let fitting = d.tried.iter().filter(|t| t.outcome.fits());
    let Some(best) = fitting.min_by_key(|t| t.outcome.statistics.reserved.peak) else {
        return format!("With this plan the run fits; it peaks at {} reserved.", bytes(peak));
    };
    let least = best.outcome.statistics.reserved.peak;
    let setting = setting_name(&best.setting.conf);
    if peak < least {
        format!(
            "With this plan it peaks at {} reserved, {} less than with {setting}, the best setting.",
            bytes(peak),
            bytes(least - peak)
        )
    } else {
        format!(
            "With this plan it peaks at {} reserved. {} needs {}: use the setting instead.",
            bytes(peak),
            capitalized(&setting),
            bytes(least)
        )
    }
}

/// A part of a whole, as `12.5%`.
fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "100%".to_owned();
    }
    // Rounded down, so that 100% means all.
    let tenths = (u128::from(part) * 1000 / u128::from(whole)) as u64;
    if tenths.is_multiple_of(10) {
        format!("{}%", tenths / 10)
    } else {
        format!("{}.{}%", tenths / 10, tenths % 10)
    }
}

/// How step boundaries were found, and how many steps made the same allocations, in sentences.
pub fn steps_told(steps: &Steps) -> String {
    let from = match steps.told_by {
        StepsFrom::Annotations => "Steps are runs of ProfilerStep#",
        StepsFrom::Optimizer => "Steps end at the optimizer step",
        StepsFrom::Rhythm => "Steps are inferred from repeating allocations",
    };
    let alike = match steps.usual {
        0 => "No two steps made the same allocations".to_owned(),
        usual => format!("{} steps made the same allocations", count(usual as u64)),
    };
    format!("{from}. {alike}.")
}

/// The sources of some phases, in sentences; `None` without phases.
pub fn phases_told<'p>(phases: impl IntoIterator<Item = &'p StepPhase>) -> Option<String> {
    let mut sources: Vec<PhaseFrom> = phases.into_iter().map(|phase| phase.told_by).collect();
    sources.sort_unstable();
    sources.dedup();
    let told = sources.iter().map(|from| match from {
        PhaseFrom::Recorded => "recorded with the allocations",
        PhaseFrom::Region => "regions of the program",
        PhaseFrom::Stacks => "inferred from stacks",
        PhaseFrom::Rhythm => "inferred from repeating allocations",
    });
    let told: Vec<&str> = told.collect();
    let limit = if sources.contains(&PhaseFrom::Rhythm) { " Without stacks, they can be wrong." } else { "" };
    (!told.is_empty()).then(|| format!("Phases are {}.{limit}", told.join(", or ")))
}

/// The peak without any idle memory, and the limits of this knowledge: one sentence each.
pub fn idle_memory(idle: &IdleMemory) -> Vec<String> {
    let [bound, peak] = [idle.lower_bound, idle.peak.bytes].map(bytes);
    let mut told = vec![match idle.peak.bytes.saturating_sub(idle.lower_bound) {
        0 => format!("At the peak of {peak}, every allocation is between its first and its last use."),
        less => {
            let bound = if bound == peak {
                format!("{} less than {peak}", bytes(less))
            } else {
                format!("{bound} instead of {peak}")
            };
            format!(
                "If every allocation lived from its first to its last use, the peak of allocated bytes would be {bound}."
            )
        }
    }];
    if idle.unknown_launches > 0 {
        told.push(format!(
            "The parameters of {} of all {} launches are unknown. These launches may have used this memory.",
            count(idle.unknown_launches),
            count(idle.launches)
        ));
    }
    told
}

/// The findings that [`IdleMemory`] does not list, in a sentence; `None` if it lists all.
pub fn idle_left_out(idle: &IdleMemory) -> Option<String> {
    (idle.left_out > 0).then(|| {
        format!(
            "Left out: {} with {} of idle memory, without which the peak would hardly be lower.",
            counted(idle.left_out as u64, "finding"),
            bytes(idle.left_out_bytes)
        )
    })
}

/// The name, the type and the shape of a tensor, as `fc.weight, float32 (1024, 768)`.
pub fn tensor_words(note: &TensorNote<'_>) -> Shown {
    let kind = format!("{} {}", note.dtype, note.shape);
    Shown::of(&if note.name.is_empty() { kind } else { format!("{}, {kind}", note.name) })
}

/// The line, the modules and the category of idle memory.
pub fn idle_line(names: &Names<'_>, finding: &IdleFinding) -> Shown {
    let mut text = names.key(&finding.line).to_string();
    if let Some(path) = &finding.module {
        let module = names.key(&HolderKey::Layer(Some(path.as_str().into())));
        text += &format!(" in {module}");
    }
    if let Some(of) = finding.category.filter(|of| of.is_told() && *of != Category::Temporary) {
        text += &format!(", {}", category(of));
    }
    Shown::joined(&text)
}

/// When memory was idle, and the peak without that, in one clause.
pub fn idle_finding(names: &Names<'_>, idle: &IdleMemory, finding: &IdleFinding) -> String {
    let one = finding.allocations.len() == 1;
    let up_to = if one { "" } else { "up to " };
    let interval = {
        let events = counted(finding.longest.events() as u64, "event");
        let time = finding.longest.duration_us(names.trace, idle.device);
        up_to.to_owned() + &time.map_or(events.clone(), |us| format!("{events} ({})", duration(us)))
    };
    let (it_was, its, it) = if one { ("it was", "its", "it") } else { ("they were", "their", "them") };
    let used = if finding.is_used_once { "used once," } else { "last used" };
    let (idles, mended) = match finding.kind {
        IdleKind::FreedLate => (format!("{used} {interval} before {it_was} freed"), "freed then".to_owned()),
        IdleKind::NotFreed => {
            (format!("{used} {interval} before the recording ended, and not freed"), "freed then".to_owned())
        }
        IdleKind::AllocatedEarly => {
            (format!("allocated {interval} before {it_was} used"), "allocated then".to_owned())
        }
        IdleKind::NeverUsed => (format!("never used in {interval}"), format!("without {it}")),
        IdleKind::BetweenUses => (
            format!("not used for {interval} between two of {its} uses"),
            "offloaded or recomputed".to_owned(),
        ),
    };
    let many = if one {
        String::new()
    } else {
        format!("{}, ", counted(finding.allocations.len() as u64, "allocation"))
    };
    let [remaining, peak, at_peak] =
        [finding.remaining_peak, idle.peak.bytes, finding.bytes_at_peak].map(bytes);
    if finding.remaining_peak >= idle.peak.bytes {
        format!(
            "{many}{idles}; {at_peak} is idle at the peak, but another moment has the same peak without it"
        )
    } else if remaining == peak {
        format!("{many}{idles}; {mended}, the peak would be {} lower", bytes(idle.saved(finding)))
    } else {
        format!("{many}{idles}; {mended}, the peak would be {remaining} instead of {peak}")
    }
}
