//! Which machine code runs on which device; the phantom's library compiles this file, too.

#![allow(unreachable_pub, reason = "the library exports nothing of it")]

/// Architectures of Tegra, which run machine code that was made for them and for nothing else.
const TEGRA: [u32; 5] = [53, 62, 72, 87, 101];

/// Whether machine code that was made for one architecture runs on a device, both as `10 * major + minor`: on devices of its own
/// and later minor versions. Source: CUDA's programming guide, on binary compatibility.
pub fn cubin_runs(made_for: u32, device: u32) -> bool {
    let is_tegra = |architecture: u32| TEGRA.contains(&architecture);
    let is_sibling = made_for / 10 == device / 10 && !is_tegra(made_for) && !is_tegra(device);
    made_for == device || (made_for < device && is_sibling)
}
