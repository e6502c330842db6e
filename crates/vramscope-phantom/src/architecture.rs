//! Compatibility of machine code and devices. The phantom library compiles this file, too.

#![allow(unreachable_pub, reason = "the phantom library does not export it")]

/// Tegra's architectures, which run only machine code for exactly their architecture.
const TEGRA: [u32; 5] = [53, 62, 72, 87, 101];

/// Whether a device runs the machine code of an architecture, both as `10 * major + minor`. Code runs on its own minor version
/// and on later ones. Source: CUDA's programming guide, binary compatibility.
pub fn cubin_runs(made_for: u32, device: u32) -> bool {
    let is_tegra = |architecture: u32| TEGRA.contains(&architecture);
    let is_sibling = made_for / 10 == device / 10 && !is_tegra(made_for) && !is_tegra(device);
    made_for == device || (made_for < device && is_sibling)
}
