//! Links of loaded objects to functions that the table lacks.
//!
//! They are handled when a program registers its kernels: each missing name with NVIDIA's prefixes gets a stand-in. Otherwise
//! the loader would take it from NVIDIA's own libraries, which fail without their driver.

use std::ffi::c_void;

use super::find;
use crate::unknown::{is_nvidias, stand_in};
use crate::{images, objects};

/// `__cudaRegisterFatBinary`: a program or library registers its kernels. It may be newly loaded.
pub(super) fn register_binary(binary: *const c_void) -> usize {
    look_at_new_objects();
    images::register_binary(binary)
}

/// Redirects the links of newly loaded objects to stand-ins, for NVIDIA's functions that the table lacks.
fn look_at_new_objects() {
    objects::redirect_new(|name| is_nvidias(name) && find(name).is_none(), stand_in);
}
