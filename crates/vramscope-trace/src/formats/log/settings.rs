//! Values of settings. Version 3 writes the type with each value, so a reader can skip an unknown setting. Versions 1 and 2 wrote all
//! settings that they knew in a fixed order.

use super::BOOLS;
use super::fields::{Fields, Result, damaged};
use crate::settings::{PowerOfTwoDivisions, SettingValue, TorchSettings};

// Types of values.
pub(super) const INT: u8 = 0;
pub(super) const FLOAT: u8 = 1;
pub(super) const BOOL: u8 = 2;
pub(super) const DIVISIONS: u8 = 3;
pub(super) const WORD: u8 = 4;

/// Settings of versions 1 and 2 in file order: key and type.
const ORDER_OF_VERSION_2: [(&str, u8); 10] = [
    ("garbage_collection_threshold", FLOAT),
    ("max_split_size", INT),
    ("pinned_num_register_threads", INT),
    ("max_round_threshold", INT),
    ("max_cached_size", INT),
    ("expandable_segments", BOOL),
    ("release_lock_on_cudamalloc", BOOL),
    ("pinned_use_cuda_host_register", BOOL),
    ("graph_capture_record_stream_reuse", BOOL),
    ("roundup_power2_divisions", DIVISIONS),
];

/// Sets the setting with this key. Ignores a number that is not finite. Returns false if there is no such setting, or if the value has
/// another type.
pub(super) fn give(settings: &mut TorchSettings, key: &str, value: SettingValue<'_>) -> bool {
    if let SettingValue::Float(x) = value
        && !x.is_finite()
    {
        return true;
    }
    TorchSettings::recorded_as(key).is_some_and(|setting| setting.set(settings, value))
}

/// Reads a settings record of versions 1 and 2.
pub(super) fn read_version_2(f: &mut Fields<'_>) -> Result<TorchSettings> {
    let mut settings = TorchSettings::default();
    for (key, kind) in ORDER_OF_VERSION_2 {
        if let Some(value) = f.optional(|f| value_of(f, kind))? {
            give(&mut settings, key, value);
        }
    }
    Ok(settings)
}

/// Reads a type and a value.
pub(super) fn read<'c>(f: &mut Fields<'c>) -> Result<SettingValue<'c>> {
    let [kind] = f.bytes()?;
    value_of(f, kind)
}

fn value_of<'c>(f: &mut Fields<'c>, kind: u8) -> Result<SettingValue<'c>> {
    let at = f.offset();
    Ok(match kind {
        INT => SettingValue::Int(f.int()?),
        FLOAT => SettingValue::Float(f.bytes().map(f64::from_le_bytes)?),
        BOOL => SettingValue::Bool(f.choice(&BOOLS, "Boolean")?),
        DIVISIONS => SettingValue::Divisions(divisions(f)?),
        WORD => SettingValue::Word(f.text()?),
        kind => return Err(damaged(at, format!("a setting of unknown type {kind}"))),
    })
}

/// Reads 16 bytes: 0 for off, otherwise the base 2 logarithm plus 1.
fn divisions(f: &mut Fields<'_>) -> Result<PowerOfTwoDivisions> {
    let at = f.offset();
    let divisions = f.bytes::<16>()?.map(|n| match n {
        0 => Some(0),
        n => 1u64.checked_shl(u32::from(n) - 1),
    });
    let wrong = || damaged(at, "a count of divisions beyond 64 bits");
    let mut out = PowerOfTwoDivisions::default();
    for (out, n) in out.0.iter_mut().zip(divisions) {
        *out = n.ok_or_else(wrong)?;
    }
    Ok(out)
}
