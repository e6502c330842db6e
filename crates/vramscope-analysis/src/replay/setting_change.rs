//! The difference between two configuration texts.

use serde::{Deserialize, Serialize};
use vramscope_trace::TorchSettings;

/// The change from one `PYTORCH_CUDA_ALLOC_CONF` text to another: items to add and to remove, each as `key:value`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingChange {
    /// Items that only the new text has.
    pub add: Vec<String>,
    /// Items that only the old text has.
    pub remove: Vec<String>,
    /// Items that both texts have.
    pub keep: Vec<String>,
    /// Whether the new text contains no settings that decide the layout of blocks, except a limit.
    pub leaves_defaults: bool,
}

impl SettingChange {
    /// The change from `old` to `new`.
    pub fn between(old: &str, new: &str) -> Self {
        let (old, new) = (items(old), items(new));
        let only = |of: &[String], other: &[String]| -> Vec<String> {
            of.iter().filter(|item| !other.contains(item)).cloned().collect()
        };
        let settings = TorchSettings::parse(&new.join(",")).unwrap_or_default();
        Self {
            add: only(&new, &old),
            remove: only(&old, &new),
            keep: new.iter().filter(|item| old.contains(item)).cloned().collect(),
            leaves_defaults: deciding(&settings).next().is_none(),
        }
    }

    /// Returns the size of the change; smaller is better. No settings at all is the smallest, then removals only, then additions
    /// only, then both. Among equals, fewer items are smaller.
    pub fn size(&self) -> impl Ord + use<> {
        let class = match (self.add.is_empty(), self.remove.is_empty()) {
            (true, _) if self.leaves_defaults => 0,
            (true, _) => 1,
            (false, true) => 2,
            (false, false) => 3,
        };
        (class, self.add.len() + self.remove.len())
    }
}

/// Returns the settings that decide the layout of blocks, except a limit, as key and value of a configuration text.
pub(super) fn deciding(settings: &TorchSettings) -> impl Iterator<Item = (&str, String)> {
    let beside: Vec<&str> = settings.beside_blocks().map(|(key, _)| key).collect();
    settings.in_conf().filter(move |(key, _)| !beside.contains(key) && *key != "per_process_memory_fraction")
}

/// Returns the items of a text as `key:value`; a list in brackets is part of one item.
pub(super) fn items(conf: &str) -> Vec<String> {
    let mut items = vec![String::new()];
    let mut depth = 0usize;
    for c in conf.chars() {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                items.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(item) = items.last_mut()
            && !c.is_whitespace()
        {
            item.push(c);
        }
    }
    items.retain(|item| !item.is_empty());
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_values_is_one_item_of_a_setting() {
        let change = SettingChange::between(
            "roundup_power2_divisions:[256:1,>:4], max_split_size_mb:64",
            "max_split_size_mb:64,expandable_segments:True",
        );
        assert_eq!(change.add, ["expandable_segments:True"]);
        assert_eq!(change.remove, ["roundup_power2_divisions:[256:1,>:4]"]);
        assert_eq!(change.keep, ["max_split_size_mb:64"]);
    }

    #[test]
    fn the_smallest_change_comes_first() {
        let recorded = "roundup_power2_divisions:4,max_split_size_mb:64";
        let mut confs = [
            "expandable_segments:True",
            "roundup_power2_divisions:4,max_split_size_mb:64,expandable_segments:True",
            "max_split_size_mb:64",
            "",
        ];
        confs.sort_by_key(|conf| SettingChange::between(recorded, conf).size());
        assert_eq!(
            confs,
            [
                "",
                "max_split_size_mb:64",
                "roundup_power2_divisions:4,max_split_size_mb:64,expandable_segments:True",
                "expandable_segments:True",
            ]
        );
        // A limit does not decide the layout of blocks.
        assert!(SettingChange::between("", "per_process_memory_fraction:0.5").leaves_defaults);
    }
}
