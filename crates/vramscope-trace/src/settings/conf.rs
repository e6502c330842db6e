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
mod tests;
