//! Colors of groups.

use vramscope_analysis::{Holder, HolderKey};
use vramscope_report::Names;
use vramscope_trace::FrameId;

use crate::questions::tables::category;

/// The hue of a group: a hash of its name, so that the same name has the same color everywhere. The color does not depend on
/// whether the group was live before recording. 0 for a group without a known name.
pub(crate) fn hue(names: &Names<'_>, holder: &Holder) -> u32 {
    hue_of(names, &holder.key, holder.stack.and_then(|stack| names.frames.own_frame(names.trace, stack)))
}

/// The hue of a group by its key. `own` is the frame that names the stack of one of its allocations.
pub(crate) fn hue_of(names: &Names<'_>, key: &HolderKey, own: Option<FrameId>) -> u32 {
    match key {
        HolderKey::NoStack | HolderKey::Pool(None) | HolderKey::Layer(None) | HolderKey::Step(None) => 0,
        // Steps, sizes and categories are ordered, and so are their colors.
        HolderKey::Step(Some(step)) => *step as u32 + 1,
        HolderKey::Size(power) => power + 1,
        HolderKey::Category(of) => u32::from(category(*of)) + 1,
        key => hash(names.wide_key(key, own).as_ref()),
    }
}

/// FNV-1a, followed by the mixing steps of MurmurHash3, so that the low bits vary as much as the high ones. Never 0.
fn hash(text: &str) -> u32 {
    let fnv = text.bytes().fold(0x811c_9dc5, |h: u32, byte| (h ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let mixed = (fnv ^ (fnv >> 16)).wrapping_mul(0x85eb_ca6b);
    let mixed = (mixed ^ (mixed >> 13)).wrapping_mul(0xc2b2_ae35);
    (mixed ^ (mixed >> 16)).max(1)
}
