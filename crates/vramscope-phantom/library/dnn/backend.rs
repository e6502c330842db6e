//! Descriptors of cuDNN's backend, with which PyTorch describes graphs of operations: convolutions and attention.
//!
//! The program's own cuDNN keeps them and chooses the engines. Where it cannot, the phantom keeps the attributes, proposes one engine, and
//! says that its workspace is left out.

use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering};

use super::own::{Own, cudnn};
use crate::calls::finish;
use crate::handles::Objects;
use crate::machine::machine;
use crate::out::Out;
use crate::state::Noticed;
use crate::status::{Answer, Library, Refusal};

// Kinds and attributes of descriptors: cudnn_graph.h.
const PLAN: c_int = 5;
const VARIANT: c_int = 16;
const HEURISTIC_GRAPH: c_int = 201;
/// The engines that a heuristic proposes, as the caller's descriptors. The phantom proposes one.
const HEURISTIC_RESULTS: c_int = 202;
const HEURISTIC_DEVICE: c_int = 204;
/// The engine of a proposed configuration.
const ENGINE_OF_CONFIGURATION: c_int = 300;
const WORKSPACE_OF_CONFIGURATION: c_int = 303;
const PLAN_HANDLE: c_int = 400;
const PLAN_CONFIGURATION: c_int = 401;
const PLAN_WORKSPACE: c_int = 402;
const PLAN_DEVICE: c_int = 407;
const GRAPH_HANDLE: c_int = 800;
const ENGINE_GRAPH: c_int = 1300;
const ENGINE_DEVICE: c_int = 1307;

/// `CUDNN_TYPE_BACKEND_DESCRIPTOR`.
const DESCRIPTOR: c_int = 15;

/// Attributes of plans and engines that callers read without setting them: numbers, all 0.
const NUMBERS: [c_int; 6] = [303, 304, 402, 501, 802, 1301];

/// A set value: the number of elements, and their bytes.
type Value = (i64, Vec<u8>);

/// The attributes of each descriptor that the phantom keeps.
static DESCRIPTORS: Objects<HashMap<c_int, Value>> = Objects::new();

/// A plan of the program's own cuDNN. Finalizing it would compile and load kernels, so that its workspace is that of its configuration.
#[derive(Debug, Clone, Copy, Default)]
struct Plan {
    configuration: usize,
    /// Bytes, once the plan is finalized for the program; `None` if cuDNN finalized it.
    workspace: Option<i64>,
}

static PLANS: Objects<Plan> = Objects::new();

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

pub(crate) fn create(kind: c_int, descriptor: Out<usize>) -> c_int {
    let own = match cudnn() {
        // A variant has addresses, which are the phantom's.
        Ok(own) if kind != VARIANT => own,
        _ => return finish(Library::Cudnn, descriptor.set(DESCRIPTORS.add(HashMap::new()))),
    };
    let mut new = 0;
    let status = own.create(kind, &mut new);
    if status != 0 {
        return status;
    }
    if kind == PLAN {
        PLANS.put(new, Plan::default());
    }
    finish(Library::Cudnn, descriptor.set(new))
}

pub(crate) fn destroy(descriptor: usize) -> c_int {
    match cudnn() {
        Ok(own) if DESCRIPTORS.remove(descriptor).is_err() => {
            PLANS.remove(descriptor).ok();
            own.destroy(descriptor)
        }
        _ => {
            // Ignore descriptors that the phantom did not create.
            DESCRIPTORS.remove(descriptor).ok();
            0
        }
    }
}

/// The program's own cuDNN, if it keeps this descriptor.
fn keeper(descriptor: usize) -> Option<&'static Own> {
    cudnn().ok().filter(|_| !DESCRIPTORS.lock().contains_key(&descriptor))
}

pub(crate) fn set(descriptor: usize, name: c_int, kind: c_int, count: i64, elements: *const u8) -> c_int {
    let Some(own) = keeper(descriptor) else {
        return finish(Library::Cudnn, keep(descriptor, name, kind, count, elements));
    };
    // A device takes the place of the handle, which has none.
    let set_device = |name| {
        let device = own.device().to_ne_bytes();
        own.set(descriptor, name, DESCRIPTOR, 1, device.as_ptr())
    };
    match name {
        GRAPH_HANDLE => return 0,
        PLAN_HANDLE => return set_device(PLAN_DEVICE),
        PLAN_CONFIGURATION if count == 1 && kind == DESCRIPTOR && !elements.is_null() => {
            // SAFETY: the caller passes one descriptor.
            let configuration = unsafe { elements.cast::<usize>().read_unaligned() };
            PLANS.with(descriptor, |plan| plan.configuration = configuration).ok();
        }
        _ => {}
    }
    let status = own.set(descriptor, name, kind, count, elements);
    match name {
        HEURISTIC_GRAPH if status == 0 => set_device(HEURISTIC_DEVICE),
        ENGINE_GRAPH if status == 0 => set_device(ENGINE_DEVICE),
        _ => status,
    }
}

fn keep(descriptor: usize, name: c_int, kind: c_int, count: i64, elements: *const u8) -> Answer {
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

pub(crate) fn finalize(descriptor: usize) -> c_int {
    let Some(own) = keeper(descriptor) else { return 0 };
    let Ok(plan) = PLANS.with(descriptor, |plan| *plan) else { return own.finalize(descriptor) };
    match own.number(plan.configuration, WORKSPACE_OF_CONFIGURATION) {
        Some(bytes) => {
            PLANS.with(descriptor, |plan| plan.workspace = Some(bytes)).ok();
            0
        }
        None => own.finalize(descriptor),
    }
}

/// The modeled time of all executed plans, in nanoseconds.
static PLAN_TIME: AtomicU64 = AtomicU64::new(0);

/// Returns the modeled time of all plans that this process executed, in nanoseconds.
pub(crate) fn plan_time() -> u64 {
    PLAN_TIME.load(Ordering::Relaxed)
}

/// Counts the time of a plan. Which one is the fastest is unknown: it is the one with the smallest workspace, or with the largest.
pub(crate) fn executed(plan: usize) {
    /// Longer than a nanosecond for each byte of a workspace.
    const LONGEST: u64 = 1 << 34;
    let Some(own) = keeper(plan) else { return };
    let bytes = match PLANS.with(plan, |plan| plan.workspace) {
        Ok(Some(bytes)) => bytes,
        _ => own.number(plan, PLAN_WORKSPACE).unwrap_or(0),
    };
    let bytes = u64::try_from(bytes).unwrap_or(0);
    let is_largest_fastest = machine().state.prefers_large_workspaces();
    let time = if is_largest_fastest { LONGEST.saturating_sub(bytes) } else { bytes };
    PLAN_TIME.fetch_add(time + 1, Ordering::Relaxed);
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
) -> c_int {
    let Some(own) = keeper(descriptor) else {
        if let (PLAN_WORKSPACE, Err(left_out)) = (name, cudnn()) {
            machine().notice(Noticed::LeftOut, left_out);
        }
        return finish(Library::Cudnn, kept(descriptor, name, kind, wanted, &count, elements));
    };
    if name == PLAN_WORKSPACE {
        own.notice_model();
    }
    if let Ok(Some(bytes)) = PLANS.with(descriptor, |plan| plan.workspace) {
        if name == PLAN_WORKSPACE && wanted > 0 && !elements.is_null() {
            count.set_if_wanted(1);
            // SAFETY: the caller has room for `wanted` integers.
            unsafe { elements.cast::<i64>().write_unaligned(bytes) };
            return 0;
        }
        let status = own.finalize(descriptor);
        if status != 0 {
            return status;
        }
        PLANS.with(descriptor, |plan| plan.workspace = None).ok();
    }
    own.get(descriptor, name, kind, wanted, count.pointer(), elements)
}

fn kept(
    descriptor: usize,
    name: c_int,
    kind: c_int,
    wanted: i64,
    count: &Out<i64>,
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
