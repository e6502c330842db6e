//! Findings in words: the sentences that the text and the page both show.

use vramscope_analysis::{
    BestSetting, CapacityFrom, DeviceReplay, Doubt, FittingGpu, Nearest, OutOfMemory, Pin, Pins, Steps,
    StepsFrom, Tried, UnusableBlocks,
};
use vramscope_trace::Trace;

use crate::advice::Advice;
use crate::doubts::setting_doubts;
use crate::names::{Names, kind, stream, unusable};
use crate::shown::Shown;
use vramscope_basics::units::{bytes, count, counted};

/// Whether free pieces could still be made to join: the recorded settings do not say that segments were expandable.
pub fn could_expand(trace: &Trace) -> bool {
    let settings = trace.settings.as_ref();
    settings.is_none_or(|s| s.in_force().expandable_segments != Some(true))
}

/// That a request failed, and what stood beside it, in a sentence.
pub fn oom_verdict(oom: &OutOfMemory) -> String {
    let asked = bytes(oom.request.bytes);
    if oom.at_limit {
        let free = bytes(oom.device_free);
        format!(
            "Out of memory: a request of {asked} failed at a limit on reserved bytes, while {free} was free on the device."
        )
    } else if oom.enough_in_total() {
        let unusable = bytes(oom.fragmentation.unusable_bytes());
        format!("Out of memory: a request of {asked} failed while {unusable} lay reserved and unusable.")
    } else {
        let (used, free) = (bytes(oom.counters.active), bytes(oom.device_free));
        format!(
            "Out of memory: a request of {asked} failed; {used} was in use and only {free} was free on the device."
        )
    }
}

/// Why a request failed, in sentences: at a limit, for fragmentation, or for size. `could_expand` as in [`could_expand`].
pub fn oom_cause(oom: &OutOfMemory, could_expand: bool) -> String {
    if oom.at_limit {
        return "The device had room for it: a limit on reserved bytes stood in the way, as `per_process_memory_fraction` sets one.".to_owned();
    }
    if !oom.enough_in_total() {
        return format!(
            "Even with every unused byte in one piece, {} would have been missing: it failed for size.",
            bytes(oom.missing())
        );
    }
    let help = if could_expand {
        "Pieces of fewer sizes, or `expandable_segments:True`, which lets free pieces join, often help."
    } else {
        "Pieces of fewer sizes often help."
    };
    format!(
        "Free and unused together are {}, more than was asked for: it failed for fragmentation, not for size. {help}",
        bytes(oom.device_free.saturating_add(oom.fragmentation.external))
    )
}

/// What free blocks were of no use to a request that failed, and why.
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

/// How much free memory lies between blocks, in a sentence that leads to those of [`pin`].
pub fn pinned(pins: &Pins) -> String {
    let both = if pins.lines.len() > 1 { " A hole between two lines counts for both." } else { "" };
    format!(
        "{} of free memory lies in {} beside blocks that keep it from joining.{both}",
        bytes(pins.bytes),
        counted(pins.holes, "hole")
    )
}

/// What free memory a line pins, and what there would be without its blocks, in a sentence.
pub fn pin(names: &Names<'_>, pin: &Pin) -> String {
    let alone = match pin.alone {
        0 => String::new(),
        all if all == pin.bytes => ", all of it in segments that nothing else keeps".to_owned(),
        part => format!(", {} of it in segments that nothing else keeps", bytes(part)),
    };
    format!(
        "{} pins {} of free memory in {}{alone}: without its {} beside them ({}) the largest hole there would have {}",
        names.pin(pin),
        bytes(pin.bytes),
        counted(pin.holes, "hole"),
        counted(pin.blocks, "block"),
        bytes(pin.block_bytes),
        bytes(pin.joined)
    )
}

/// The setting that would have served a run best that was out of memory, and why that may not be exact, in sentences.
pub fn best_setting(best: &BestSetting, advice: &Advice) -> String {
    let Tried { setting, outcome } = &best.tried;
    let named = setting_name(&setting.conf);
    let verdict = if outcome.fits() {
        let peak = bytes(outcome.statistics.reserved.peak);
        let end = if outcome.rescued > 0 { " as far as it was recorded" } else { "" };
        format!("With {named} this run peaks at {peak} and fits{end}.")
    } else {
        let settings = counted(best.of as u64, "setting");
        let nearest = best.nearest.as_ref().map(|nearest| format!(" {}", self::nearest(nearest)));
        format!("None of {settings} tried makes it fit.{}", nearest.unwrap_or_default())
    };
    match setting_doubts(&best.doubts, advice).as_slice() {
        [] => verdict,
        doubts => format!("{verdict} That is approximate. {}", doubts.join(" ")),
    }
}

/// Which setting comes nearest where none fits, and what it misses, in a sentence.
pub fn nearest(nearest: &Nearest) -> String {
    format!(
        "{} comes nearest: with {} more, on a device of {}, it fits.",
        capitalized(&setting_name(&nearest.conf)),
        bytes(nearest.missing),
        bytes(nearest.needed)
    )
}

/// The smallest GPU on which a run fits, in a sentence.
pub fn smallest_gpu(FittingGpu { gpu, overhead, outcome }: &FittingGpu) -> String {
    format!(
        "The smallest GPU on which it fits: {} ({}, {}), with {} for the CUDA context and others; it then peaks at {} reserved.",
        gpu.name,
        gpu.full,
        bytes(gpu.total_bytes),
        bytes(*overhead),
        bytes(outcome.statistics.reserved.peak)
    )
}

fn capitalized(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().map_or(String::new(), |first| first.to_uppercase().chain(rest).collect())
}

/// A setting as a name in a sentence.
pub(crate) fn setting_name(conf: &str) -> String {
    if conf.is_empty() { "PyTorch's defaults".to_owned() } else { format!("`{}`", Shown::of(conf)) }
}

/// How large the device of a replay is, and from where that is known, in a sentence.
pub fn device_size(d: &DeviceReplay, advice: &Advice) -> String {
    match d.capacity {
        None => format!(
            "The recording does not say how large the device was: name one with {} to ask whether it fits.",
            advice.capacity
        ),
        Some((c, CapacityFrom::Recording)) if d.doubts.contains(&Doubt::GuessedLimit) => format!(
            "The recording ran out at a limit on reserved bytes; its device is taken for one of {}.",
            bytes(c.total)
        ),
        Some((c, CapacityFrom::Recording)) => format!(
            "The device is as the recording shows it: the allocator had {} when it first ran out.",
            bytes(c.total)
        ),
        Some((c, CapacityFrom::Given)) if c.overhead == 0 => format!(
            "The device has {}, all of it for the allocator; a CUDA context takes some hundred MiB, which {} can name.",
            bytes(c.total),
            advice.overhead
        ),
        Some((c, CapacityFrom::Given)) => format!(
            "The device has {}, of which the allocator cannot have {}.",
            bytes(c.total),
            bytes(c.overhead)
        ),
    }
}

/// How little any allocator could do with, and how sure that is: a sentence for the bytes in use at one time, and one for
/// the best packing.
pub fn floors(d: &DeviceReplay) -> [String; 2] {
    let active = bytes(d.floors.active);
    let packed = bytes(d.floors.packed);
    [
        format!("{active} is the most in use at one time: no allocator can do with less."),
        if d.floors.is_optimal {
            format!("{packed} is the best packing with every lifetime known, and there is no better one.")
        } else {
            format!(
                "{packed} is the best packing found with every lifetime known; a better one could save at most {}.",
                bytes(d.floors.packed.saturating_sub(d.floors.active))
            )
        },
    ]
}

/// What tells where steps begin, and how many of them are alike, in sentences.
pub fn steps_told(steps: &Steps) -> String {
    let from = match steps.told_by {
        StepsFrom::Annotations => "A step is a run of ProfilerStep#",
        StepsFrom::Optimizer => "A step ends with that of the optimizer",
        StepsFrom::Rhythm => "Steps are told by the allocations that come back",
    };
    let alike = match steps.usual {
        0 => "No two made the same allocations".to_owned(),
        usual => format!("{} made the same allocations", count(usual as u64)),
    };
    format!("{from}. {alike}.")
}
