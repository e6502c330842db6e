//! Configuration texts of `PYTORCH_CUDA_ALLOC_CONF`.

use thiserror::Error;

use super::divisions;
use super::table::{KEPT_AS_WRITTEN, SettingKind, SettingValue, TorchSetting, TorchSettings};
use crate::release::TorchRelease;

const MIB: i64 = 1 << 20;

/// An invalid item of a configuration text.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{item}` {why}")]
pub struct ConfError {
    /// The invalid item, as written.
    pub item: String,
    /// What is wrong with it.
    pub why: String,
}

impl TorchSettings {
    /// Parses `key:value,key:value`, with `[..]` around a list of pairs. Sizes are in bytes, although the text has MiB. Parsing is
    /// lenient, because PyTorch once accepted the text of a recording: unknown keys go to [`other`](Self::other).
    ///
    /// # Errors
    /// The first item that has another form, or a value of the wrong type.
    pub fn parse(text: &str) -> Result<Self, ConfError> {
        let mut settings = Self::default();
        for item in split_outside_brackets(text) {
            let item = item.trim();
            if item.is_empty() {
                continue;
            }
            let wrong = |why: &str| ConfError { item: item.chars().take(80).collect(), why: why.to_owned() };
            let (key, value) = item.split_once(':').ok_or_else(|| wrong("is not `key:value`"))?;
            let (key, value) = (key.trim(), value.trim());
            match Self::ALL.iter().find(|setting| setting.conf == Some(key)) {
                Some(setting) => {
                    setting.set(&mut settings, setting.kind.parse(value).map_err(wrong)?);
                }
                None => settings.other.push((key.to_owned(), value.to_owned())),
            }
        }
        Ok(settings)
    }

    /// Like [`parse`](Self::parse), but as strict as PyTorch at startup (`parseArgs` in `c10/core/AllocatorConfig.cpp`, 2.11).
    ///
    /// # Errors
    /// The first item that this release would reject, with the substance of PyTorch's message. Also an item that selects another
    /// allocator, whose rules are not known here.
    pub fn parse_for(text: &str, release: TorchRelease) -> Result<Self, ConfError> {
        let settings = Self::parse(text)?;
        let wrong = |key: &str, value: &str, why| Err(ConfError { item: format!("{key}:{value}"), why });
        for (key, value) in &settings.other {
            if !KEPT_AS_WRITTEN.contains(&key.as_str()) {
                return wrong(key, value, format!("has an unrecognized key; PyTorch's are {}", known_keys()));
            }
        }
        for (setting, key, value) in settings.items() {
            if let Some(since) = setting.since.filter(|&since| release < since) {
                let why =
                    format!("has an unrecognized key: PyTorch {release} does not support it, {since} does");
                return wrong(key, &value, why);
            }
        }
        for (setting, key, value) in settings.items() {
            if let Some(why) = setting.refuses_value(&settings) {
                return wrong(key, &value, why);
            }
        }
        Ok(settings)
    }

    /// Returns the text that sets these settings.
    pub fn to_conf(&self) -> String {
        self.in_conf().map(|(key, value)| format!("{key}:{value}")).collect::<Vec<_>>().join(",")
    }

    /// Returns each setting with a value, as key and value of a configuration text.
    pub fn in_conf(&self) -> impl Iterator<Item = (&str, String)> {
        let known = self.items().map(|(_, key, value)| (key, value));
        known.chain(self.other.iter().map(|(key, value)| (key.as_str(), value.clone())))
    }

    /// Settings that do not affect blocks of device memory, as key and value of a configuration text.
    pub fn beside_blocks(&self) -> impl Iterator<Item = (&str, String)> {
        let known = self.items().filter(|(setting, ..)| !setting.decides).map(|(_, key, value)| (key, value));
        known.chain(self.other.iter().map(|(key, value)| (key.as_str(), value.clone())))
    }

    /// Returns each known setting with a value that a configuration text can set, with key and value as in the text.
    fn items(&self) -> impl Iterator<Item = (&'static TorchSetting, &'static str, String)> {
        Self::ALL
            .iter()
            .filter_map(|setting| Some((setting, setting.conf?, setting.get(self)?.in_conf(setting.kind))))
    }
}

impl SettingKind {
    /// Parses the value of a setting in a configuration text.
    fn parse(self, text: &str) -> Result<SettingValue<'_>, &'static str> {
        match self {
            Self::Bytes => {
                let mebibytes: u64 = text.parse().map_err(|_| "is not a whole number of MiB")?;
                let bytes = i64::try_from(mebibytes).ok().and_then(|n| n.checked_mul(MIB));
                bytes.map(SettingValue::Int).ok_or("is too large")
            }
            Self::Number => text.parse().map(SettingValue::Int).map_err(|_| "is not a whole number"),
            Self::Fraction => {
                let x: f64 = text.parse().map_err(|_| "is not a number")?;
                if (0.0..=1.0).contains(&x) {
                    Ok(SettingValue::Float(x))
                } else {
                    Err("is not between 0 and 1")
                }
            }
            Self::Truth => match text {
                "True" => Ok(SettingValue::Bool(true)),
                "False" => Ok(SettingValue::Bool(false)),
                _ => Err("is neither True nor False"),
            },
            Self::Divisions => divisions::parse(text).map(SettingValue::Divisions),
            Self::Word => Ok(SettingValue::Word(text)),
        }
    }
}

impl SettingValue<'_> {
    fn in_conf(self, kind: SettingKind) -> String {
        match self {
            Self::Int(bytes) if kind == SettingKind::Bytes => (bytes / MIB).to_string(),
            Self::Int(n) => n.to_string(),
            Self::Float(x) => x.to_string(),
            Self::Bool(true) => "True".to_owned(),
            Self::Bool(false) => "False".to_owned(),
            Self::Divisions(divisions) => divisions.in_conf(),
            Self::Word(text) => text.to_owned(),
        }
    }
}

fn known_keys() -> String {
    let deciding =
        TorchSettings::ALL.iter().filter(|setting| setting.decides && setting.kind != SettingKind::Word);
    let mut keys: Vec<&str> = deciding.filter_map(|setting| setting.conf).collect();
    keys.sort_unstable();
    format!("{} and others that do not affect the placement of blocks", keys.join(", "))
}

/// Sets `key` to `value` in a configuration text and replaces any earlier value.
///
/// ```
/// let text = vramscope_trace::conf_with("backend:native,max_split_size_mb:64", "max_split_size_mb", "128");
/// assert_eq!(text, "backend:native,max_split_size_mb:128");
/// ```
pub fn conf_with(text: &str, key: &str, value: &str) -> String {
    let others = split_outside_brackets(text)
        .map(str::trim)
        .filter(|item| !item.is_empty() && item.split_once(':').is_none_or(|(other, _)| other.trim() != key));
    let mut items: Vec<String> = others.map(str::to_owned).collect();
    items.push(format!("{key}:{value}"));
    items.join(",")
}

/// Splits `a:1,b:[x:1,y:2],c:3` into three items.
fn split_outside_brackets(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0usize;
    text.split(move |c| {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::PowerOfTwoDivisions;

    #[test]
    fn a_list_of_divisions_fills_below_its_first_pair_and_above_its_last() {
        let conf =
            TorchSettings::parse("expandable_segments:True,roundup_power2_divisions:[4:2,16:4,>:8]").unwrap();
        assert_eq!(conf.expandable_segments, Some(true));
        assert_eq!(
            conf.roundup_power2_divisions,
            Some(PowerOfTwoDivisions([2, 2, 2, 0, 4, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8]))
        );
    }

    #[test]
    fn everything_the_dictionary_leaves_out_is_parsed() {
        let conf = TorchSettings::parse(
            "large_segment_size_mb:64, max_non_split_rounding_mb:32,per_process_memory_fraction:0.12,backend:native,\
             pinned_free_catch_all:True",
        )
        .unwrap();
        assert_eq!(conf.large_segment_size, Some(64 * MIB));
        assert_eq!(conf.max_non_split_rounding, Some(32 * MIB));
        assert_eq!(conf.per_process_memory_fraction, Some(0.12));
        assert_eq!(conf.backend.as_deref(), Some("native"));
        assert_eq!(conf.other, [("pinned_free_catch_all".to_owned(), "True".to_owned())]);
    }

    #[test]
    fn a_wrong_item_is_named() {
        let error = |text| TorchSettings::parse(text).unwrap_err().to_string();
        assert_eq!(error("max_split_size_mb:big"), "`max_split_size_mb:big` is not a whole number of MiB");
        assert_eq!(error("backend"), "`backend` is not `key:value`");
        assert_eq!(
            error("roundup_power2_divisions:3"),
            "`roundup_power2_divisions:3` has a count of divisions that is not a power of two or 0"
        );
        assert_eq!(
            error("garbage_collection_threshold:7"),
            "`garbage_collection_threshold:7` is not between 0 and 1"
        );
    }

    fn complaint(text: &str) -> String {
        match TorchSettings::parse_for(text, TorchRelease::new(2, 11)) {
            Ok(_) => "accepted".to_owned(),
            Err(e) => e.to_string(),
        }
    }

    /// PyTorch 2.11 gives the same answer in `torch._C._accelerator_setAllocatorSettings`.
    #[test]
    fn settings_that_pytorch_accepts_are_accepted() {
        for text in [
            "",
            "max_split_size_mb:20",
            "large_segment_size_mb:11",
            "large_segment_size_mb:64,max_split_size_mb:64",
            "garbage_collection_threshold:0.5",
            "per_process_memory_fraction:0",
            "per_process_memory_fraction:1",
            "roundup_power2_divisions:128",
            "roundup_power2_divisions:[256:1,512:0,>:8]",
            "expandable_segments:True,",
            " expandable_segments : True , max_split_size_mb : 64",
            "backend:native,release_lock_on_cudamalloc:True,pinned_num_register_threads:8",
        ] {
            assert_eq!(complaint(text), "accepted", "{text}");
        }
    }

    #[test]
    fn settings_that_pytorch_refuses_get_its_message() {
        for (text, why) in [
            ("foo:1", "unrecognized key"),
            ("Expandable_Segments:True", "unrecognized key"),
            ("max_split_size_mb:19", "too small, must be >= 20"),
            ("max_non_split_rounding_mb:19", "too small, must be >= 20"),
            ("max_split_size_mb:32,large_segment_size_mb:64", "too small, must be >= 64"),
            ("large_segment_size_mb:10", "must be > 10"),
            ("garbage_collection_threshold:0", "set it in (0.0, 1.0)"),
            ("garbage_collection_threshold:1", "set it in (0.0, 1.0)"),
            ("garbage_collection_threshold:2", "is not between 0 and 1"),
            ("per_process_memory_fraction:1.5", "is not between 0 and 1"),
            ("roundup_power2_divisions:3", "power of two"),
            ("roundup_power2_divisions:0", "power of two"),
            ("roundup_power2_divisions:[256:1,500:2]", "power of two"),
            ("roundup_power2_divisions:[256:1", "no closing bracket"),
            ("expandable_segments:true", "neither True nor False"),
            ("pinned_num_register_threads:3", "power of 2"),
            ("max_split_size_mb:abc", "not a whole number"),
            ("max_split_size_mb", "not `key:value`"),
            ("backend:cudaMallocAsync", "another allocator"),
        ] {
            let said = complaint(text);
            assert!(said.contains(why), "{text}: {said}");
        }
        let old = TorchSettings::parse_for("large_segment_size_mb:64", TorchRelease::new(2, 6))
            .unwrap_err()
            .to_string();
        assert!(old.contains("PyTorch 2.6 does not support it"), "{old}");
    }
}
