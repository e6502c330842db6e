//! Settings worth trying.

use vramscope_engine::{Policy, TorchRelease};
use vramscope_trace::{AllocatorSettings, ConfError, TorchSettings};

use super::capacity::Capacity;
use super::setting_change::{deciding, items};

/// Settings for a replay.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// The text for `PYTORCH_CUDA_ALLOC_CONF`.
    pub conf: String,
    /// The allocator's rules under these settings.
    pub policy: Policy,
}

impl Setting {
    /// Returns the rules of one release under a configuration text.
    ///
    /// # Errors
    /// Texts that PyTorch would reject; see [`TorchSettings::parse_for`].
    pub fn parse(text: &str, release: TorchRelease) -> Result<Self, ConfError> {
        let settings = TorchSettings::parse_for(text, release)?;
        Ok(Self { conf: text.trim().to_owned(), policy: Policy::torch(&settings, release) })
    }

    /// Returns the settings of a recording. If the program changed them while it ran, the recorded text is out of date, and a new
    /// text is derived from the rules.
    pub(super) fn recorded(settings: &AllocatorSettings, policy: &Policy) -> Self {
        let text = settings.conf_text.clone().unwrap_or_default();
        let is_so = policy.release().is_none_or(|release| Policy::torch(&settings.conf, release) == *policy);
        let conf = if is_so { text } else { policy.settings().conf_text.unwrap_or_default() };
        Self { conf, policy: policy.clone() }
    }

    /// Returns the settings with the release, and so the search order, of the recorded allocator.
    #[must_use]
    pub(super) fn in_order_of(mut self, recorded: &Policy) -> Self {
        self.policy.search_order = recorded.search_order;
        self.policy.allocator = recorded.allocator;
        self
    }
}

/// Returns settings that are worth a try and differ from the recorded ones: PyTorch's defaults, the recorded settings without one
/// of them, and settings that often help, both alone and added to the recorded ones. Recorded settings outside the caching of
/// device memory are preserved, and so is a limit. Returns no settings for allocators other than PyTorch's.
///
/// Garbage is collected only below a limit, which is a fraction of the whole device. So garbage collection is tried only if
/// `capacity` gives the device's size. The limit is then the part of the device that the allocator can use.
pub(crate) fn useful_settings(
    recorded: &AllocatorSettings,
    policy: &Policy,
    capacity: Option<Capacity>,
) -> Vec<Setting> {
    let Some(release) = policy.release() else { return Vec::new() };
    let mut helpful: Vec<String> = vec!["expandable_segments:True".to_owned()];
    helpful.extend([32, 64, 128, 256, 512].map(|mib| format!("max_split_size_mb:{mib}")));
    helpful.extend([2, 4, 8].map(|n| format!("roundup_power2_divisions:{n}")));
    helpful.push("expandable_segments:True,roundup_power2_divisions:8".to_owned());
    helpful.push("large_segment_size_mb:64".to_owned());
    // The program's own limit is preserved.
    let limit = recorded.conf.per_process_memory_fraction.filter(|&fraction| fraction < 1.0);
    if let Some(c) = capacity.filter(|c| c.overhead < c.total) {
        let hundredths = ((c.total - c.overhead) as u128 * 100 / c.total as u128).min(99);
        let fraction = limit.unwrap_or(hundredths as f64 / 100.0);
        let collecting = format!("garbage_collection_threshold:0.8,per_process_memory_fraction:{fraction}");
        helpful.push(format!("max_split_size_mb:128,{collecting}"));
        helpful.push(collecting);
    }
    let recorded_items = deciding_items(recorded, policy);
    let mut texts = vec![String::new()];
    for left_out in &recorded_items {
        let others = recorded_items.iter().filter(|item| *item != left_out);
        texts.push(others.map(String::as_str).collect::<Vec<_>>().join(","));
    }
    for added in &helpful {
        texts.push(with(&recorded_items, added));
        texts.push(added.clone());
    }
    // The text may be pasted into a shell, so other characters are excluded.
    let plain = |value: &str| value.chars().all(|c| c.is_ascii_alphanumeric() || "_.".contains(c));
    let others = recorded.conf.beside_blocks().filter(|(_, value)| plain(value));
    let kept: Vec<String> = others.map(|(key, value)| format!("{key}:{value}")).collect();
    let mut settings: Vec<Setting> = Vec::new();
    for text in texts {
        let limit = limit.filter(|_| !text.contains("per_process_memory_fraction"));
        let limit = limit.map(|fraction| format!("per_process_memory_fraction:{fraction}"));
        let kept = limit.iter().chain(&kept).map(String::as_str);
        let items: Vec<&str> = [text.as_str()].into_iter().chain(kept).collect();
        let text = items.join(",");
        // Not every release supports every key.
        let Ok(setting) = Setting::parse(text.trim_start_matches(','), release) else { continue };
        let setting = setting.in_order_of(policy);
        if setting.policy != *policy && settings.iter().all(|s| s.policy != setting.policy) {
            settings.push(setting);
        }
    }
    settings
}

/// Returns the recorded settings that decide the layout of blocks, except a limit, as written. If the program changed them while
/// it ran, they are derived from the rules.
pub(super) fn deciding_items(recorded: &AllocatorSettings, policy: &Policy) -> Vec<String> {
    let written = policy.release().is_none_or(|release| Policy::torch(&recorded.conf, release) == *policy);
    let rules = policy.settings().conf;
    let keys: Vec<String> =
        deciding(if written { &recorded.conf } else { &rules }).map(|(key, _)| key.to_owned()).collect();
    let text = match &recorded.conf_text {
        Some(text) if written => text.clone(),
        _ => (if written { &recorded.conf } else { &rules }).to_conf(),
    };
    items(&text).into_iter().filter(|item| keys.iter().any(|key| is_of(item, key))).collect()
}

/// Returns `recorded` with the items of `added`, which replace items with the same keys.
fn with(recorded: &[String], added: &str) -> String {
    let added = items(added);
    let stays = |item: &&String| !added.iter().any(|new| new.split(':').next() == item.split(':').next());
    recorded.iter().filter(stays).chain(&added).map(String::as_str).collect::<Vec<_>>().join(",")
}

/// Whether the item has this key.
fn is_of(item: &str, key: &str) -> bool {
    item.split(':').next() == Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn confs(recorded: &str, capacity: Option<Capacity>) -> Vec<String> {
        let release = TorchRelease::new(2, 11);
        let recorded = TorchSettings::parse(recorded).unwrap();
        let policy = Policy::torch(&recorded, release);
        let settings = useful_settings(&recorded.into(), &policy, capacity);
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
    fn recorded_settings_are_kept_removed_and_replaced() {
        let tried = confs("roundup_power2_divisions:4,max_split_size_mb:64", None);
        let has = |conf: &str| tried.iter().any(|tried| tried == conf);
        assert_eq!(tried[0], "");
        assert!(has("roundup_power2_divisions:4") && has("max_split_size_mb:64"));
        assert!(has("max_split_size_mb:64,roundup_power2_divisions:4,expandable_segments:True"), "{tried:?}");
        assert!(has("expandable_segments:True"));
        assert!(has("roundup_power2_divisions:4,max_split_size_mb:128"), "{tried:?}");
    }

    #[test]
    fn unrelated_recorded_settings_stay() {
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
            "garbage_collection_threshold:0.8,per_process_memory_fraction:0.99"
        );
        assert!(collects(confs("", capacity(921)))[1].ends_with("fraction:0.07"));
    }
}
