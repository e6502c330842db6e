//! Findings in words: the sentences that the text and the page both show.

use vramscope_analysis::{
    CapacityFrom, DeviceReplay, Doubt, FittingGpu, Pin, Pins, Steps, StepsFrom, UnusableBlocks,
};

pub use crate::causes::{nearest, oom_advice, oom_cause, oom_verdict, recorded_conf};

use crate::advice::Advice;
use crate::names::{Names, kind, stream, unusable};
use vramscope_basics::units::{bytes, count, counted};

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
            bytes(c.total.saturating_sub(c.overhead))
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
