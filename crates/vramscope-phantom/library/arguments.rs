//! The arguments of kernels: which device memory a launch accesses.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{LazyLock, Mutex};

use crate::handles::Objects;
use crate::images;
use crate::layouts::Layouts;
use crate::machine::{lock, machine};
use crate::memory::accesses::{self, Found};
use crate::state::Noticed;

/// The sizes of a kernel's parameters in bytes. `None` if they are unknown.
type Sizes = Option<&'static [u32]>;

/// Kernels that were launched, by the address of their stub or by their handle. PyTorch launches some hundreds.
static KERNELS: LazyLock<Mutex<HashMap<usize, Sizes>>> = LazyLock::new(Mutex::default);

/// Kernels of modules that the program loaded.
static MODULES: Objects<Layouts> = Objects::new();

/// Reads the kernels of a module that the program loads, given its image.
pub(crate) fn load(module: usize, image: usize) {
    if accesses::are_recorded() {
        MODULES.put(module, images::layouts_of_image(image));
    }
}

/// Reads the kernels of a module that the program loads, given the path of its image.
pub(crate) fn load_file(module: usize, path: &str) {
    if accesses::are_recorded()
        && let Ok(mut image) = std::fs::read(path)
    {
        // A PTX text ends with a zero.
        image.resize(image.len() + 64, 0);
        load(module, image.as_ptr().expose_provenance());
    }
}

/// Sets the handle of a module's kernel.
pub(crate) fn know(function: usize, module: usize, name: Option<&str>) {
    if !accesses::are_recorded() {
        return;
    }
    let sizes = name.and_then(|name| MODULES.with(module, |layouts| layouts.get(name).cloned()).ok()?);
    if sizes.is_none() {
        notice(name);
    }
    lock(&KERNELS).insert(function, sizes.map(|sizes| &*Box::leak(sizes)));
}

fn notice(name: Option<&str>) {
    let name = name.unwrap_or("?");
    let end = name.floor_char_boundary(crate::state::NAME_BYTES);
    machine().notice(Noticed::UnknownParameters, &name[..end]);
}

fn sizes_of(function: usize) -> Sizes {
    if let Some(&known) = lock(&KERNELS).get(&function) {
        return known;
    }
    // Without the lock: reading the image may take milliseconds.
    let (name, sizes) = images::layout(function);
    if sizes.is_none() {
        notice(name);
    }
    let sizes = sizes.map(|sizes| &*Box::leak(sizes));
    lock(&KERNELS).insert(function, sizes);
    sizes
}

/// Records the accesses of a launch. `arguments` is an array with the address of each argument, or null.
pub(crate) fn record(function: usize, arguments: *const *const u8, stream: usize) {
    accesses::record(stream, |found| match sizes_of(function) {
        Some(sizes) if sizes.is_empty() || !arguments.is_null() => add(sizes, arguments, found),
        _ => found.unknown(),
    });
}

fn add(sizes: &[u32], arguments: *const *const u8, found: &mut Found) {
    for (i, &size) in sizes.iter().enumerate() {
        // SAFETY: the caller passes the address of an argument of this size for each parameter.
        let argument = unsafe { *arguments.add(i) };
        if !argument.is_null() && size >= 8 {
            // SAFETY: as above.
            found.bytes(unsafe { std::slice::from_raw_parts(argument, size as usize) });
        }
    }
}

/// Records the accesses of a launch by the driver. The arguments are an array like that of [`record`], or else `extra` is a list of
/// settings with a buffer of all arguments.
pub(crate) fn record_by_driver(
    function: usize,
    arguments: *const *const u8,
    extra: *const *const c_void,
    stream: usize,
) {
    if !arguments.is_null() || extra.is_null() {
        return record(function, arguments, stream);
    }
    accesses::record(stream, |found| match buffer(extra) {
        Some(buffer) => found.bytes(buffer),
        None => found.unknown(),
    });
}

/// The buffer of arguments in the settings of a launch (cuda.h).
fn buffer<'a>(extra: *const *const c_void) -> Option<&'a [u8]> {
    /// `CU_LAUNCH_PARAM_BUFFER_POINTER`, `CU_LAUNCH_PARAM_BUFFER_SIZE`.
    const BUFFER: usize = 1;
    const SIZE: usize = 2;
    let (mut buffer, mut size) = (std::ptr::null::<u8>(), 0);
    for i in (0..8).step_by(2) {
        // SAFETY: the caller passes a list of pairs that ends with null.
        let (name, value) = unsafe { (*extra.add(i), *extra.add(i + 1)) };
        match name.addr() {
            0 => break,
            BUFFER => buffer = value.cast(),
            // SAFETY: the value of this setting is the address of the size.
            SIZE => size = unsafe { *value.cast::<usize>() },
            _ => {}
        }
    }
    // SAFETY: the caller passes a buffer of this size.
    (!buffer.is_null()).then(|| unsafe { std::slice::from_raw_parts(buffer, size) })
}
