//! The allocator settings that differ between two recordings.

use std::collections::{BTreeMap, BTreeSet};

use vramscope_trace::{TorchSettings, Trace};

use crate::basics::{Both, Side};

/// An allocator setting whose values differ between two recordings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingDifference {
    /// The key in `PYTORCH_CUDA_ALLOC_CONF`.
    pub key: String,
    /// The value in each recording; `None` if it is not known.
    pub values: Both<Option<String>>,
}

/// Returns the allocator settings that differ. If one recording lacks a setting and the other has not set it explicitly, the
/// setting does not count.
pub fn changed_settings(traces: Both<&Trace>) -> Vec<SettingDifference> {
    let settings = traces.map(|trace| trace.settings.clone().unwrap_or_default());
    let in_conf = |settings: &TorchSettings| -> BTreeMap<String, String> {
        settings.in_conf().map(|(key, value)| (key.to_owned(), value)).collect()
    };
    let values = settings.map(|settings| in_conf(&settings.in_force()));
    let set = settings.map(|settings| in_conf(&settings.conf));
    let keys: BTreeSet<&String> = values.a.keys().chain(values.b.keys()).collect();
    let differs = |key: &&String| match (values.a.get(*key), values.b.get(*key)) {
        (Some(a), Some(b)) => a != b,
        _ => set.a.contains_key(*key) || set.b.contains_key(*key),
    };
    let value = |side: Side, key: &String| values.of(side).get(key).cloned();
    let difference = |key: &String| SettingDifference {
        key: key.clone(),
        values: Both { a: value(Side::A, key), b: value(Side::B, key) },
    };
    keys.into_iter().filter(differs).map(difference).collect()
}
