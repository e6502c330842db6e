//! Why a request failed and what to change, in sentences: what every form of report, the page and a program that fails say.

use vramscope_analysis::{
    BestSetting, Nearest, OomCause, OomCauseKind, OutOfMemory, Outcome, Recommended, Remedy, SettingChange,
    Summary, Tried,
};
use vramscope_trace::Trace;

use crate::advice::Advice;
use crate::doubts::setting_doubts;
use crate::names::Names;
use crate::shown::Shown;
use vramscope_basics::units::{bytes, counted};

/// The text of `PYTORCH_CUDA_ALLOC_CONF` of a recording; empty where none was recorded.
pub fn recorded_conf(trace: &Trace) -> &str {
    trace.settings.as_ref().and_then(|settings| settings.conf_text.as_deref()).unwrap_or_default()
}

/// That a request failed and its first cause, in a sentence. `conf` are the settings under which it failed.
pub fn oom_verdict(names: &Names<'_>, conf: &str, oom: &OutOfMemory) -> String {
    let asked = bytes(oom.request.bytes);
    match oom.causes.main() {
        Some(cause) => {
            format!("Out of memory: a request of {asked} failed {}.", because(names, conf, oom, cause))
        }
        None => format!(
            "Out of memory: a request of {asked} failed; the device lacked {}, and no single cause accounts for that.",
            bytes(oom.causes.lacking)
        ),
    }
}

/// What the request lacked and all further causes, in sentences. `conf` are the settings under which it failed.
pub fn oom_cause(names: &Names<'_>, conf: &str, oom: &OutOfMemory) -> String {
    let main = oom.causes.main().map(|cause| cause.kind);
    let others = || oom.causes.all.iter().filter(|cause| Some(cause.kind) != main);
    let list = |decisive: bool| -> String {
        let phrases = others().filter(|cause| cause.is_decisive == decisive);
        phrases.map(|cause| phrase(names, conf, cause)).collect::<Vec<_>>().join("; ")
    };
    let at_most = if oom.causes.is_exact { "" } else { " at most" };
    let mut text = format!("The device lacked {}{at_most}.", bytes(oom.causes.lacking));
    for (sentence, list) in [
        ("Without any one of these it would have been served, too", list(true)),
        ("Not enough alone", list(false)),
    ] {
        if !list.is_empty() {
            text.push_str(&format!(" {sentence}: {list}."));
        }
    }
    text
}

/// The first cause, as what follows "a request failed".
fn because(names: &Names<'_>, conf: &str, oom: &OutOfMemory, cause: &OomCause) -> String {
    let size = bytes(cause.bytes);
    let setting = setting(conf, cause.kind);
    match cause.kind {
        OomCauseKind::Leak(line) => {
            let more = cause
                .per_step
                .map_or(String::new(), |more| format!(", {} more with every step", bytes(more)));
            format!("for a leak: {} keeps {size}{more}", names.frame(line))
        }
        OomCauseKind::Size => {
            format!(
                "for size: the allocated blocks and this request need {size} more than the device has for them"
            )
        }
        OomCauseKind::Outside => format!(
            "for other memory on the device: {size} of its {} is in use beside PyTorch's allocator",
            bytes(oom.device_total.unwrap_or_default())
        ),
        OomCauseKind::Limit => {
            format!("at a limit on reserved bytes, while {size} was free on the device")
        }
        OomCauseKind::Rounding => format!("for rounding: {setting} adds {size} to the allocated blocks"),
        OomCauseKind::Unsplit => {
            format!("for blocks that are not split: {setting} keeps {size} unused in them")
        }
        OomCauseKind::Collection => {
            format!("for garbage collection: with {setting} the run reserves {size} more than without it")
        }
        OomCauseKind::Pending => {
            format!(
                "for another stream: {size} of freed blocks waited for it when the allocator looked for a block"
            )
        }
        OomCauseKind::OtherSize => {
            let (pool, range) =
                if oom.request.bytes > 1 << 20 { ("small", "up to") } else { ("large", "more than") };
            format!(
                "for memory of the {pool} pool: {size} lies free in it, which serves requests of {range} 1 MiB only"
            )
        }
        OomCauseKind::OtherPool => {
            format!(
                "for memory of other pools: {size} lies free in private pools, which serve only themselves"
            )
        }
        OomCauseKind::OtherStream => {
            format!("for memory of other streams: {size} lies free in segments of theirs")
        }
        OomCauseKind::IdleStream => format!(
            "for memory of idle streams: {size} lies free in segments of streams that made no request for a long time"
        ),
        OomCauseKind::TooSmall => {
            let unusable = oom.fragmentation.unusable.iter();
            let too_small = unusable.filter(|u| u.why == vramscope_analysis::Unusable::TooSmall);
            let blocks: u64 = too_small.map(|u| u.blocks as u64).sum();
            format!(
                "for fragmentation: {size} lies free in {}, each smaller than the request",
                counted(blocks, "block")
            )
        }
    }
}

/// A cause among others, without a verb.
fn phrase(names: &Names<'_>, conf: &str, cause: &OomCause) -> String {
    let size = bytes(cause.bytes);
    let setting = setting(conf, cause.kind);
    match cause.kind {
        OomCauseKind::Leak(line) => format!("{size} kept by {}", names.frame(line)),
        OomCauseKind::Size => format!("{size} by which the device is too small"),
        OomCauseKind::Outside => format!("{size} of the device in use beside PyTorch's allocator"),
        OomCauseKind::Limit => format!("{size} free on the device above a limit on reserved bytes"),
        OomCauseKind::Rounding => format!("{size} added to blocks by {setting}"),
        OomCauseKind::Unsplit => format!("{size} that {setting} keeps unused in blocks"),
        OomCauseKind::Collection => format!("{size} reserved more with {setting}"),
        OomCauseKind::Pending => format!("{size} of freed blocks that waited for another stream"),
        OomCauseKind::OtherSize => format!("{size} free in the pool for requests of another size"),
        OomCauseKind::OtherPool => format!("{size} free in other pools"),
        OomCauseKind::OtherStream => format!("{size} free in segments of other streams"),
        OomCauseKind::IdleStream => format!("{size} free in segments of idle streams"),
        OomCauseKind::TooSmall => format!("{size} in free blocks smaller than the request"),
    }
}

/// The setting behind a cause, as it stands in `conf` where it does.
fn setting(conf: &str, kind: OomCauseKind) -> String {
    let Some(key) = kind.setting() else { return String::new() };
    let items = SettingChange::between("", conf).add;
    let item = items.into_iter().find(|item| item.split(':').next() == Some(key));
    format!("`{}`", item.map_or_else(|| Shown::of(key), |item| Shown::of(&item)))
}

/// What to change after the first out of memory of a recording, in sentences, the most useful first.
pub fn oom_advice(s: &Summary, advice: &Advice) -> Vec<String> {
    let Some(oom) = s.ooms.first() else { return Vec::new() };
    let remedy = s.remedy.as_ref().map(remedy);
    let best = s.best_setting.as_ref().map(|best| best_setting(best, oom, s.growth_per_step, advice));
    remedy.into_iter().chain(best).collect()
}

/// What a change other than of settings comes to, in a sentence.
fn remedy(remedy: &Remedy) -> String {
    let served = |outcome: &Outcome| {
        let peak = bytes(outcome.statistics.reserved.peak);
        format!("the request is then served, and reserved bytes peak at {peak} up to it")
    };
    match remedy {
        Remedy::WithoutLimit(outcome) => format!(
            "Remove or raise the limit (`set_per_process_memory_fraction`, or `per_process_memory_fraction` in `PYTORCH_CUDA_ALLOC_CONF`): {}.",
            served(outcome)
        ),
        Remedy::WithoutOutside(outcome) => format!(
            "Free the memory that other processes and libraries hold on the device: {}.",
            served(outcome)
        ),
        Remedy::WithoutPools(outcome) => format!(
            "Allocate from the default pool instead of private pools (`torch.cuda.MemPool`, CUDA graphs): {}.",
            served(outcome)
        ),
        Remedy::WithoutWaiting(outcome) => format!(
            "Free tensors that another stream uses (`record_stream`) only once it is done, with `torch.cuda.synchronize()` or an event: {}.",
            served(outcome)
        ),
        Remedy::LargerDevice(nearest, peak) => format!(
            "As recorded it fits on a device of {}, {} more; reserved bytes then peak at {} up to this request.",
            bytes(nearest.needed),
            bytes(nearest.missing),
            bytes(*peak)
        ),
    }
}

/// Which settings to change, what that comes to and why it may not be exact, in sentences.
fn best_setting(best: &BestSetting, oom: &OutOfMemory, growth: Option<u64>, advice: &Advice) -> String {
    let Tried { outcome, .. } = &best.tried;
    let peak = bytes(outcome.statistics.reserved.peak);
    let again = best.more_steps.zip(growth).map(|(steps, growth)| match steps {
        0 => format!(
            "The program gains {} with every step and fails again within one more step.",
            bytes(growth)
        ),
        steps => format!(
            "The program gains {} with every step and fails again after about {}.",
            bytes(growth),
            counted(steps, "more step")
        ),
    });
    let mut text = if !outcome.fits() {
        let settings = counted(best.of as u64, "setting");
        let nearest = best.nearest.as_ref().map(|nearest| format!(" {}", self::nearest(nearest)));
        format!("None of {settings} tried makes it fit.{}", nearest.unwrap_or_default())
    } else if !is_advised(best, oom) {
        let longer = match best.more_steps {
            Some(steps) if steps > 0 => format!("runs about {} more", counted(steps, "step")),
            Some(_) => "runs less than one step more".to_owned(),
            None => "only fails later".to_owned(),
        };
        format!("No setting helps for long: {}, it {longer}.", change(&best.change, false))
    } else {
        let again = again.map(|again| format!(" {again}")).unwrap_or_default();
        format!(
            "{}: the request is then served, and reserved bytes peak at {peak} up to it.{again}",
            change(&best.change, true)
        )
    };
    match best.recommended {
        Recommended::WasOn => {
            text.push_str(" The setting that PyTorch's error text recommends was already on.");
        }
        Recommended::DoesNotHelp => {
            text.push_str(" The setting that PyTorch's error text recommends does not make it fit.");
        }
        Recommended::Helps => {}
    }
    match setting_doubts(&best.doubts, advice).as_slice() {
        [] => text,
        doubts => format!("{text} That is approximate. {}", doubts.join(" ")),
    }
}

/// The best setting is worth a change: it makes the run fit, and by more than what the program gains with a step. Under a leak no
/// setting is, for it only puts off the failure.
pub(crate) fn is_advised(best: &BestSetting, oom: &OutOfMemory) -> bool {
    let is_leak = matches!(oom.causes.main(), Some(OomCause { kind: OomCauseKind::Leak(_), .. }));
    best.tried.outcome.fits() && !is_leak && best.more_steps != Some(0)
}

/// A change of settings: as a request to the reader, or as the beginning of a sentence about it.
pub(crate) fn change(change: &SettingChange, is_request: bool) -> String {
    let list = |items: &[String]| {
        let items: Vec<String> = items.iter().map(|item| format!("`{}`", Shown::of(item))).collect();
        items.join(" and ")
    };
    let (add, remove) = (list(&change.add), list(&change.remove));
    let conf = "`PYTORCH_CUDA_ALLOC_CONF`";
    match (change.add.is_empty(), change.remove.is_empty(), is_request) {
        (true, true, true) => "Keep the recorded settings".to_owned(),
        (true, true, false) => "with the recorded settings".to_owned(),
        (false, true, true) => format!("Add {add} to {conf}"),
        (false, true, false) => format!("with {add} added"),
        (true, false, true) => format!("Remove {remove} from {conf}"),
        (true, false, false) => format!("with {remove} removed"),
        (false, false, true) => format!("Replace {remove} by {add} in {conf}"),
        (false, false, false) => format!("with {add} in place of {remove}"),
    }
}

/// A setting that was tried beside the recorded ones, as a row names it: `recorded + expandable_segments:True`; where nothing was
/// recorded, the setting alone.
pub(crate) fn relative(change: &SettingChange, conf: &str) -> String {
    let SettingChange { add, remove, keep, .. } = change;
    let nothing_recorded = remove.is_empty() && keep.is_empty();
    match (add.is_empty(), remove.is_empty()) {
        _ if conf.is_empty() => "defaults".to_owned(),
        (false, true) if !nothing_recorded => format!("recorded + {}", add.join(",")),
        (true, false) => format!("recorded without {}", remove.join(",")),
        (false, false) if !keep.is_empty() => {
            format!("recorded without {} + {}", remove.join(","), add.join(","))
        }
        (false, false) => format!("{conf} alone"),
        _ => conf.to_owned(),
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

fn capitalized(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().map_or(String::new(), |first| first.to_uppercase().chain(rest).collect())
}

/// A setting as a name in a sentence.
pub(crate) fn setting_name(conf: &str) -> String {
    if conf.is_empty() { "PyTorch's defaults".to_owned() } else { format!("`{}`", Shown::of(conf)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_named_relative_to_the_recorded_ones() {
        let named = |old: &str, new: &str| relative(&SettingChange::between(old, new), new);
        assert_eq!(named("", "max_split_size_mb:32"), "max_split_size_mb:32");
        assert_eq!(named("a:1", "a:1,b:2"), "recorded + b:2");
        assert_eq!(named("a:1,b:2", "a:1"), "recorded without b:2");
        assert_eq!(named("a:1,b:2", "a:1,c:3"), "recorded without b:2 + c:3");
        assert_eq!(named("a:1", "b:2"), "b:2 alone");
        assert_eq!(named("a:1", ""), "defaults");
    }

    #[test]
    fn no_recorded_setting_is_dropped_without_a_word() {
        let told = |old: &str, new: &str| change(&SettingChange::between(old, new), true);
        let conf = "`PYTORCH_CUDA_ALLOC_CONF`";
        assert_eq!(told("a:1", "a:1,b:2"), format!("Add `b:2` to {conf}"));
        assert_eq!(told("a:1", ""), format!("Remove `a:1` from {conf}"));
        assert_eq!(told("a:1,b:2", ""), format!("Remove `a:1` and `b:2` from {conf}"));
        assert_eq!(told("a:1", "b:2"), format!("Replace `a:1` by `b:2` in {conf}"));
    }
}
