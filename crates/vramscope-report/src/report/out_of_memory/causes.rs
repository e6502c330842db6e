//! Sentences about why a request failed and what to change, for all report formats, the page and failing programs.

use serde::{Deserialize, Serialize};
use vramscope_analysis::{
    BestSetting, Certainty, Nearest, OomCause, OomCauseKind, OomExplanation, Recommended, Remedy,
    SettingChange, Summary,
};
use vramscope_basics::units::{bytes, counted};
use vramscope_trace::Trace;

use crate::advice::Advice;
use crate::names::Names;
use crate::report::fixes::{fix, holders_of};
use crate::report::limitations::setting_limitations;
use crate::shown::Shown;

/// The recorded value of `PYTORCH_CUDA_ALLOC_CONF`; empty if none was recorded.
pub fn recorded_conf(trace: &Trace) -> &str {
    trace.settings.as_ref().and_then(|settings| settings.conf_text.as_deref()).unwrap_or_default()
}

/// The setting as a line to paste into a shell.
pub(crate) fn paste(conf: &str) -> String {
    if conf.is_empty() {
        return "unset PYTORCH_CUDA_ALLOC_CONF".to_owned();
    }
    let plain = conf.chars().all(|c| c.is_ascii_alphanumeric() || "_:.,".contains(c));
    let conf = if plain { conf.to_owned() } else { format!("'{}'", Shown::of(conf).replace('\'', "'\\''")) };
    format!("PYTORCH_CUDA_ALLOC_CONF={conf}")
}

/// One sentence: the failed request and its main cause. `conf` are the settings under which it failed.
pub fn oom_verdict(names: &Names<'_>, conf: &str, oom: &OomExplanation) -> String {
    MainCause::of(names, conf, oom).verdict(oom.request.bytes)
}

/// Why a request failed: the data of [`oom_verdict`], without ids that are valid only in one recording.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MainCause {
    /// Bytes that the device lacked for the request.
    pub lacking_bytes: u64,
    /// Size of the device in bytes, if recorded.
    pub device_total_bytes: Option<u64>,
    /// Number of free blocks smaller than the request.
    pub too_small_blocks: u64,
    /// The main cause, with the name of a leaking line; `None` if no single cause explains the failure.
    pub cause: Option<OomCause<String>>,
    /// The setting behind the cause, with its value if it was recorded.
    pub setting: Option<String>,
    /// Another cause of similar weight beside a leak, as a clause with its certainty.
    pub also: Option<String>,
}

impl MainCause {
    /// The data of a failed request. `conf` are the settings under which it failed.
    pub fn of(names: &Names<'_>, conf: &str, oom: &OomExplanation) -> Self {
        let unusable = oom.fragmentation.unusable.iter();
        let too_small = unusable.filter(|u| u.why == vramscope_analysis::Unusable::TooSmall);
        let cause = oom.causes.main();
        Self {
            lacking_bytes: oom.causes.lacking,
            device_total_bytes: oom.device_total,
            too_small_blocks: too_small.map(|u| u.blocks as u64).sum(),
            cause: cause.map(|cause| cause.with_line(|line| names.frame(line).into())),
            setting: cause.and_then(|cause| setting(conf, cause.kind)),
            also: cause.and_then(|cause| also(names, conf, oom, cause)),
        }
    }

    /// The sentence of [`oom_verdict`].
    pub fn verdict(&self, requested_bytes: u64) -> String {
        let asked = bytes(requested_bytes);
        match &self.cause {
            Some(cause) => {
                let because = self.because(cause, requested_bytes);
                let how_sure = how_sure(cause.certainty);
                let also = self.also.as_deref().map(|also| format!(", and {also}")).unwrap_or_default();
                format!("Out of memory: a request of {asked} failed{how_sure} {because}{also}.")
            }
            None => format!(
                "Out of memory: a request of {asked} failed; the device lacked {}, and no single cause explains it.",
                bytes(self.lacking_bytes)
            ),
        }
    }

    /// The main cause; completes "a request failed".
    fn because(&self, cause: &OomCause<String>, requested_bytes: u64) -> String {
        let size = bytes(cause.bytes);
        let setting = in_backticks(self.setting.as_deref());
        match &cause.kind {
            OomCauseKind::Leak(line) => {
                let more = growth(cause.per_step, cause.per_repetition);
                let more = more.map(|(more, each)| format!(", growing by {} {each}", bytes(more)));
                let more = more.unwrap_or_default();
                format!("because of a leak: {} retains {size}{more}", Shown::joined(line))
            }
            OomCauseKind::Size => {
                format!(
                    "because the device is too small: the allocated blocks and this request exceed the memory available to them by {size}"
                )
            }
            OomCauseKind::Rising if cause.per_step.is_some() => format!(
                "because allocated memory grows by {} per step: {size} is needed with this request",
                bytes(cause.per_step.unwrap_or_default())
            ),
            OomCauseKind::Rising => format!(
                "because the device is too small: {size} is needed with this request, the most so far and rising"
            ),
            OomCauseKind::Pages => format!(
                "because of {setting}: its pages take {size} more of the device for this request than a segment of its own size"
            ),
            OomCauseKind::Outside => format!(
                "because of other memory on the device: {size} of its {} is in use outside PyTorch's allocator",
                bytes(self.device_total_bytes.unwrap_or_default())
            ),
            OomCauseKind::Limit => {
                format!("because of a limit on reserved bytes, while {size} was free on the device")
            }
            OomCauseKind::Rounding => {
                format!("because of rounding: {setting} adds {size} to the allocated blocks")
            }
            OomCauseKind::Unsplit => {
                format!("because of unsplit blocks: {setting} leaves {size} in them unused")
            }
            OomCauseKind::Collection => {
                format!(
                    "because of garbage collection: with {setting} the run reserves {size} more than without it"
                )
            }
            OomCauseKind::Pending => {
                format!(
                    "because of another stream: {size} of freed blocks waited for it when the allocator searched for a block"
                )
            }
            OomCauseKind::OtherSize => {
                let (pool, range) =
                    if requested_bytes > 1 << 20 { ("small", "up to") } else { ("large", "more than") };
                format!(
                    "because of memory in the {pool} pool: {size} is free in it, but it serves only requests of {range} 1 MiB"
                )
            }
            OomCauseKind::OtherPool => {
                format!(
                    "because of memory in other pools: {size} is free in private pools, which serve only their own requests"
                )
            }
            OomCauseKind::OtherStream => {
                format!("because of memory of other streams: {size} is free in their segments")
            }
            OomCauseKind::IdleStream => format!(
                "because of memory of idle streams: {size} is free in segments of streams that made no request for a long time"
            ),
            OomCauseKind::TooSmall => {
                format!(
                    "because of fragmentation: {size} is free in {}, each smaller than the request",
                    counted(self.too_small_blocks, "block")
                )
            }
        }
    }
}

/// The bytes that a leak adds, and how often: with each step if that is known, else with each repetition.
pub(crate) fn growth(per_step: Option<u64>, per_repetition: Option<u64>) -> Option<(u64, &'static str)> {
    per_step.map(|more| (more, "per step")).or_else(|| per_repetition.map(|more| (more, "each time")))
}

/// The word for a certainty, in front of "because" or a verb.
pub(crate) fn how_sure(certainty: Certainty) -> &'static str {
    match certainty {
        Certainty::Shown => "",
        Certainty::Likely => ", likely",
        Certainty::Possible => ", possibly",
    }
}

/// Sentences about the missing bytes and all further causes. `conf` are the settings under which the request failed.
pub fn oom_cause(names: &Names<'_>, conf: &str, oom: &OomExplanation) -> String {
    let main = oom.causes.main().map(|cause| cause.kind);
    let others = || oom.causes.all.iter().filter(|cause| Some(cause.kind) != main);
    let list = |decisive: bool| -> String {
        let phrases = others().filter(|cause| cause.is_decisive == decisive);
        phrases.map(|cause| phrase(names, conf, cause)).collect::<Vec<_>>().join("; ")
    };
    let at_most = if oom.causes.is_exact { "" } else { " at most" };
    let mut text = format!("The device lacked {}{at_most}.", bytes(oom.causes.lacking));
    for (sentence, list) in [
        ("Removing any one of these would also have let the request succeed", list(true)),
        ("Not sufficient alone", list(false)),
    ] {
        if !list.is_empty() {
            text.push_str(&format!(" {sentence}: {list}."));
        }
    }
    text
}

/// Part of the bytes of a leak from which another cause is named beside it: one of this many.
const SIMILAR_PART: u64 = 4;

/// Another cause that would also have let the program go on, if the main cause is a leak that does not outweigh it.
fn also(names: &Names<'_>, conf: &str, oom: &OomExplanation, main: &OomCause) -> Option<String> {
    let is_leak = matches!(main.kind, OomCauseKind::Leak(_));
    let is_similar = |other: &&OomCause| {
        let is_size = matches!(other.kind, OomCauseKind::Leak(_) | OomCauseKind::Size | OomCauseKind::Rising);
        other.is_decisive && !is_size && other.bytes >= main.bytes / SIMILAR_PART
    };
    let other = oom.causes.all.iter().filter(|_| is_leak).find(is_similar)?;
    let how_sure = match other.certainty {
        Certainty::Shown => "",
        Certainty::Likely => "likely ",
        Certainty::Possible => "possibly ",
    };
    Some(format!("{how_sure}because of {}", phrase(names, conf, other)))
}

/// A further cause, as a phrase without a verb.
fn phrase(names: &Names<'_>, conf: &str, cause: &OomCause) -> String {
    let size = bytes(cause.bytes);
    let setting = in_backticks(setting(conf, cause.kind).as_deref());
    match cause.kind {
        OomCauseKind::Leak(line) => format!("{size} retained by {}", names.frame(line)),
        OomCauseKind::Size => format!("{size} that the device is too small"),
        OomCauseKind::Rising => format!("{size} needed with this request, the most so far and rising"),
        OomCauseKind::Pages => format!("{size} taken by pages of {setting}"),
        OomCauseKind::Outside => format!("{size} of the device in use outside PyTorch's allocator"),
        OomCauseKind::Limit => format!("{size} free on the device above a limit on reserved bytes"),
        OomCauseKind::Rounding => format!("{size} added to blocks by {setting}"),
        OomCauseKind::Unsplit => format!("{size} left unused in blocks by {setting}"),
        OomCauseKind::Collection => format!("{size} reserved more with {setting}"),
        OomCauseKind::Pending => format!("{size} of freed blocks that waited for another stream"),
        OomCauseKind::OtherSize => format!("{size} free in the pool for requests of another size"),
        OomCauseKind::OtherPool => format!("{size} free in other pools"),
        OomCauseKind::OtherStream => format!("{size} free in segments of other streams"),
        OomCauseKind::IdleStream => format!("{size} free in segments of idle streams"),
        OomCauseKind::TooSmall => format!("{size} in free blocks smaller than the request"),
    }
}

/// The setting behind a cause, with its value if it is in `conf`.
fn setting(conf: &str, kind: OomCauseKind) -> Option<String> {
    let key = kind.setting()?;
    let items = SettingChange::between("", conf).add;
    let item = items.into_iter().find(|item| item.split(':').next() == Some(key));
    Some(item.unwrap_or_else(|| key.to_owned()))
}

fn in_backticks(setting: Option<&str>) -> String {
    setting.map_or_else(String::new, |setting| format!("`{}`", Shown::of(setting)))
}

/// What to change after the first out-of-memory failure of a recording, or because of a leak, one entry per change, the most useful first.
pub fn oom_advice(names: &Names<'_>, s: &Summary, advice: &Advice) -> Vec<String> {
    let (remedy, best) = (s.remedy.as_ref(), s.best_setting.as_ref());
    let after = s.ooms.first().map(|oom| oom.causes.main());
    let after = after.map(|main| changes_after_oom(main, remedy, best, s.growth_per_step, advice));
    let fixes = s.fixes.iter().map(|of| fix(names, of));
    fixes.chain(holders_of(s)).chain(after.unwrap_or_default()).collect()
}

/// The entries of [`oom_advice`] about settings and the device. `main` is the main cause of the failure, and the program gains `growth` bytes per step.
pub fn changes_after_oom<L>(
    main: Option<&OomCause<L>>,
    remedy: Option<&Remedy>,
    best: Option<&BestSetting>,
    growth: Option<u64>,
    advice: &Advice,
) -> Vec<String> {
    let grows = matches!(main, Some(OomCause { kind: OomCauseKind::Leak(_) | OomCauseKind::Rising, .. }));
    let best = best.map(|best| best_setting(best, is_advised(best, main), grows, growth, advice));
    remedy.map(self::remedy).into_iter().chain(best).collect()
}

/// The effect of a change other than a setting, in a sentence.
pub(crate) fn remedy(remedy: &Remedy) -> String {
    let served = |peak: &u64| {
        let peak = bytes(*peak);
        format!("the request then succeeds, and reserved bytes peak at {peak} up to that event")
    };
    match remedy {
        Remedy::WithoutLimit(peak) => format!(
            "Remove or raise the limit (`set_per_process_memory_fraction`, or `per_process_memory_fraction` in `PYTORCH_CUDA_ALLOC_CONF`): {}.",
            served(peak)
        ),
        Remedy::WithoutOutside(peak) => format!(
            "Free the memory that other processes and libraries hold on the device: {}.",
            served(peak)
        ),
        Remedy::WithoutPools(peak) => format!(
            "Allocate from the default pool instead of private pools (`torch.cuda.MemPool`), or capture all CUDA graphs in one pool (`torch.cuda.graph(..., pool=first.pool())`). With one pool, {}.",
            served(peak)
        ),
        Remedy::WithoutWaiting(peak) => format!(
            "Free tensors that another stream uses (`record_stream`) only after that stream is done, with `torch.cuda.synchronize()` or an event: {}.",
            served(peak)
        ),
        Remedy::LargerDevice(nearest, peak) => format!(
            "Up to this request alone, the run needs a device of {}, {} more, with the recorded settings; reserved bytes then peak at {}. What follows the request is not recorded.",
            bytes(nearest.needed),
            bytes(nearest.missing),
            bytes(*peak)
        ),
    }
}

/// The settings to change, the effect, and why it may be approximate.
fn best_setting(
    best: &BestSetting,
    is_advised: bool,
    grows: bool,
    growth: Option<u64>,
    advice: &Advice,
) -> String {
    let peak = bytes(best.peak_reserved);
    let again = best.more_steps.zip(growth).map(|(steps, growth)| match steps {
        0 => format!(
            "Allocated bytes grow by {} with every step, so the run fails again within one more step.",
            bytes(growth)
        ),
        steps => format!(
            "Allocated bytes grow by {} with every step, so the run fails again after about {}.",
            bytes(growth),
            counted(steps, "more step")
        ),
    });
    let mut text = if !best.fits {
        let tried = match best.of {
            1 => "The setting that was tried does not make it fit.".to_owned(),
            of => format!("None of the {of} settings tried makes it fit."),
        };
        let nearest = best.nearest.as_ref().filter(|_| !grows);
        // The recording ends with the failure, so the setting is not known to fit further.
        let nearest = nearest.map(|nearest| {
            format!(
                " {} comes nearest: up to this request, it needs {} more than the device has, {} in total.",
                capitalized(&setting_name(&nearest.conf)),
                bytes(nearest.missing),
                bytes(nearest.needed)
            )
        });
        format!("{tried}{}", nearest.unwrap_or_default())
    } else if !is_advised {
        let longer = match best.more_steps {
            Some(steps) if steps > 0 => format!("runs about {} more", counted(steps, "step")),
            Some(_) => "runs less than one more step".to_owned(),
            None => "only fails later".to_owned(),
        };
        format!("No setting helps for long: {}, the run {longer}.", change(&best.change, false))
    } else {
        let again = again.map(|again| format!(" {again}")).unwrap_or_default();
        format!(
            "{}: the request then succeeds, and reserved bytes peak at {peak} up to that event.{again}",
            change(&best.change, true)
        )
    };
    match best.recommended {
        Recommended::WasOn => {
            text.push_str(" The setting that PyTorch's error message recommends was already on.");
        }
        Recommended::DoesNotHelp => {
            text.push_str(" The setting that PyTorch's error message recommends does not make it fit.");
        }
        Recommended::Helps => {}
    }
    match setting_limitations(&best.limitations, advice).as_slice() {
        [] => text,
        limitations => format!("{text} This is approximate. {}", limitations.join(" ")),
    }
}

/// Whether the best setting is worth a change: the run fits with it, by more than the growth per step. For memory that grows, no setting
/// is, because it only delays the failure.
pub(crate) fn is_advised<L>(best: &BestSetting, main: Option<&OomCause<L>>) -> bool {
    let only_delays =
        matches!(main, Some(OomCause { kind: OomCauseKind::Leak(_) | OomCauseKind::Rising, .. }));
    best.fits && !only_delays && best.more_steps != Some(0)
}

/// A change of settings: an imperative sentence if `is_request`, else a phrase at the start of a sentence.
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

/// Row label of a tried setting, relative to the recorded ones: `recorded + expandable_segments:True`; the setting alone if none was
/// recorded.
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

/// If no setting fits, the setting that comes nearest and the missing bytes, in a sentence.
pub fn nearest(nearest: &Nearest) -> String {
    format!(
        "{} comes nearest: it fits on a device with {} more, {} in total.",
        capitalized(&setting_name(&nearest.conf)),
        bytes(nearest.missing),
        bytes(nearest.needed)
    )
}

pub(crate) fn capitalized(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().map_or(String::new(), |first| first.to_uppercase().chain(rest).collect())
}

/// A setting as it is named in a sentence.
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
    fn advice_names_every_setting_that_it_removes() {
        let told = |old: &str, new: &str| change(&SettingChange::between(old, new), true);
        let conf = "`PYTORCH_CUDA_ALLOC_CONF`";
        assert_eq!(told("a:1", "a:1,b:2"), format!("Add `b:2` to {conf}"));
        assert_eq!(told("a:1", ""), format!("Remove `a:1` from {conf}"));
        assert_eq!(told("a:1,b:2", ""), format!("Remove `a:1` and `b:2` from {conf}"));
        assert_eq!(told("a:1", "b:2"), format!("Replace `a:1` by `b:2` in {conf}"));
    }
}
