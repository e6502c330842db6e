//! Settings worth trying.

use vramscope_allocator::{Policy, TorchRelease, parse_conf};
use vramscope_trace::{AllocatorSettings, ConfError};

use super::Capacity;

/// Settings to replay under.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// What a user gives PyTorch in `PYTORCH_CUDA_ALLOC_CONF`.
    pub conf: String,
    /// The same as the allocator's rules.
    pub policy: Policy,
}

impl Setting {
    /// The rules of one release under the text a user gives it.
    ///
    /// # Errors
    /// What PyTorch would refuse, see [`parse_conf`].
    pub fn parse(text: &str, release: TorchRelease) -> Result<Self, ConfError> {
        let settings = AllocatorSettings { conf: parse_conf(text, release)?, ..AllocatorSettings::default() };
        Ok(Self { conf: text.trim().to_owned(), policy: Policy::torch(&settings, release) })
    }

    /// The same with the order of search of the allocator that made a recording.
    #[must_use]
    pub(super) fn in_order_of(mut self, recorded: &Policy) -> Self {
        self.policy.search_order = recorded.search_order;
        self
    }
}

/// The least releases that know a key (#161035, #172056).
const FRACTION_IN_CONF: TorchRelease = TorchRelease::new(2, 10);
const LARGE_SEGMENT_SIZE: TorchRelease = TorchRelease::new(2, 11);

/// Settings that often help, each other than those of the recording. What the recorded text sets beside the
/// caching of device memory stays as it is.
///
/// Garbage is collected only below a limit, which is a part of the whole device: this is tried only where that
/// is given as `capacity`. The limit is what of the device the allocator can have.
pub fn useful_settings(
    recorded: &AllocatorSettings,
    policy: &Policy,
    release: TorchRelease,
    capacity: Option<Capacity>,
) -> Vec<Setting> {
    let mut texts: Vec<String> = ["", "expandable_segments:True"].map(str::to_owned).into();
    texts.extend([32, 64, 128, 256, 512].map(|mib| format!("max_split_size_mb:{mib}")));
    texts.extend([2, 4, 8].map(|n| format!("roundup_power2_divisions:{n}")));
    texts.push("expandable_segments:True,roundup_power2_divisions:8".to_owned());
    if release >= LARGE_SEGMENT_SIZE {
        texts.push("large_segment_size_mb:64".to_owned());
    }
    if let Some(c) = capacity.filter(|c| release >= FRACTION_IN_CONF && c.overhead < c.total) {
        let hundredths = (c.total - c.overhead) as u128 * 100 / c.total as u128;
        let collecting =
            format!("garbage_collection_threshold:0.8,per_process_memory_fraction:0.{hundredths:02}");
        let collecting = if hundredths == 100 { collecting.replace("0.100", "1.0") } else { collecting };
        texts.push(format!("max_split_size_mb:128,{collecting}"));
        texts.push(collecting);
    }
    let others = recorded.conf.other.iter().filter(|(key, _)| key != "backend");
    let kept: Vec<String> = others.map(|(key, value)| format!("{key}:{value}")).collect();
    let mut settings: Vec<Setting> = Vec::new();
    for text in texts {
        let items: Vec<&str> = [text.as_str()].into_iter().chain(kept.iter().map(String::as_str)).collect();
        let text = items.join(",");
        // Keys that are kept may be of another release.
        let Ok(setting) = Setting::parse(text.trim_start_matches(','), release) else { continue };
        let setting = setting.in_order_of(policy);
        if setting.policy != *policy && settings.iter().all(|s| s.policy != setting.policy) {
            settings.push(setting);
        }
    }
    settings
}

#[cfg(test)]
mod tests {
    use vramscope_trace::Conf;

    use super::*;

    fn confs(recorded: &str, capacity: Option<Capacity>) -> Vec<String> {
        let release = TorchRelease::new(2, 11);
        let recorded =
            AllocatorSettings { conf: Conf::parse(recorded).unwrap(), ..AllocatorSettings::default() };
        let policy = Policy::torch(&recorded, release);
        let settings = useful_settings(&recorded, &policy, release, capacity);
        settings.into_iter().map(|s| s.conf).collect()
    }

    #[test]
    fn the_recorded_settings_are_not_tried_again() {
        assert!(!confs("", None).contains(&String::new()));
        let tried = confs("expandable_segments:True", None);
        assert!(tried.contains(&String::new()));
        assert!(!tried.contains(&"expandable_segments:True".to_owned()));
    }

    #[test]
    fn what_has_nothing_to_do_with_it_stays() {
        let tried = confs("pinned_use_cuda_host_register:True", None);
        assert!(tried.contains(&"expandable_segments:True,pinned_use_cuda_host_register:True".to_owned()));
    }

    #[test]
    fn garbage_is_collected_only_below_a_limit() {
        let collects =
            |confs: Vec<String>| confs.into_iter().filter(|c| c.contains("garbage")).collect::<Vec<_>>();
        assert!(collects(confs("", None)).is_empty());
        let capacity = |overhead| Some(Capacity { total: 1000, overhead });
        assert_eq!(
            collects(confs("", capacity(0)))[1],
            "garbage_collection_threshold:0.8,per_process_memory_fraction:1.0"
        );
        assert!(collects(confs("", capacity(921)))[1].ends_with("fraction:0.07"));
    }
}
