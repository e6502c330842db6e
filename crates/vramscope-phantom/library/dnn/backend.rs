//! Descriptors of cuDNN's backend, with which PyTorch describes convolutions and attention.

use std::collections::HashMap;
use std::ffi::c_int;

use crate::handles::Objects;
use crate::out::Out;
use crate::status::{Answer, Refusal};

/// `CUDNN_ATTR_ENGINEHEUR_RESULTS`: the engines that a heuristic proposes, as the caller's descriptors. The phantom proposes
/// one.
const HEURISTIC_RESULTS: c_int = 202;

/// Attributes of plans and engines that callers read without setting them: numbers, all 0.
const NUMBERS: [c_int; 6] = [303, 304, 402, 501, 802, 1301];

/// `CUDNN_ATTR_ENGINECFG_ENGINE`: the engine of a proposed configuration.
const ENGINE_OF_CONFIGURATION: c_int = 300;

/// A set value: the number of elements, and their bytes.
type Value = (i64, Vec<u8>);

/// The attributes of each descriptor.
static DESCRIPTORS: Objects<HashMap<c_int, Value>> = Objects::new();

/// Bytes per element, by `cudnnBackendAttributeType_t`.
fn element_size(kind: c_int) -> usize {
    match kind {
        // Handles, 64-bit integers, doubles, pointers, descriptors.
        0 | 3 | 5 | 6 | 15 => 8,
        // Booleans and characters.
        2 | 24 => 1,
        // Fractions.
        26 => 16,
        // Enumerations, 32-bit integers and floats.
        _ => 4,
    }
}

pub(crate) fn create(_kind: c_int, descriptor: Out<usize>) -> Answer {
    descriptor.set(DESCRIPTORS.add(HashMap::new()))
}

pub(crate) fn destroy(descriptor: usize) -> Answer {
    // Ignore descriptors that the phantom did not create.
    DESCRIPTORS.remove(descriptor).ok();
    Ok(())
}

pub(crate) fn set(descriptor: usize, name: c_int, kind: c_int, count: i64, elements: *const u8) -> Answer {
    let length = usize::try_from(count).map_err(|_| Refusal::InvalidValue)? * element_size(kind);
    if elements.is_null() && length > 0 {
        return Err(Refusal::InvalidValue);
    }
    let mut bytes = vec![0; length];
    if length > 0 {
        // SAFETY: the caller passes `count` elements of this kind.
        unsafe { std::ptr::copy_nonoverlapping(elements, bytes.as_mut_ptr(), length) };
    }
    DESCRIPTORS.with(descriptor, |attributes| attributes.insert(name, (count, bytes))).map(drop)
}

/// Visits the bytes of each attribute of a descriptor.
pub(crate) fn each_value(descriptor: usize, mut visit: impl FnMut(&[u8])) {
    DESCRIPTORS.with(descriptor, |attributes| attributes.values().for_each(|(_, bytes)| visit(bytes))).ok();
}

pub(crate) fn get(
    descriptor: usize,
    name: c_int,
    kind: c_int,
    wanted: i64,
    count: Out<i64>,
    elements: *mut u8,
) -> Answer {
    let value = match DESCRIPTORS.with(descriptor, |attributes| attributes.get(&name).cloned())? {
        Some(value) => Some(value),
        None if NUMBERS.contains(&name) => Some((1, vec![0; element_size(kind)])),
        None => None,
    };
    let Some((length, bytes)) = value else {
        // The descriptors that the caller prepared for the result stay unchanged.
        let proposed = matches!(name, HEURISTIC_RESULTS | ENGINE_OF_CONFIGURATION);
        count.set_if_wanted(proposed.into());
        return Ok(());
    };
    count.set_if_wanted(length);
    let kept = usize::try_from(wanted.min(length)).unwrap_or(0) * element_size(kind);
    if !elements.is_null() && kept <= bytes.len() {
        // SAFETY: the caller has room for `wanted` elements of this kind.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), elements, kept) };
    }
    Ok(())
}
