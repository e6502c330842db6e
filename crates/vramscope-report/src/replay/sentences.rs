//! Sentences about a replay, shared by the text and the page.

use vramscope_analysis::{
    CapacityFrom, DeviceReplay, FittingGpu, PlanReplay, RecordedPlan, ReplayLimitation,
};
use vramscope_basics::units::{bytes, count, counted};

use crate::advice::Advice;
pub use crate::report::out_of_memory::causes::{
    MainCause, changes_after_oom, nearest, oom_advice, oom_cause, oom_verdict, recorded_conf,
};
use crate::report::out_of_memory::causes::{capitalized, setting_name};

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
