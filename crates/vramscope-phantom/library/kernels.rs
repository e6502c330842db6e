//! Kernels: registration, attributes and launches. They compute nothing.

use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::{c_char, c_int, c_void};
use std::sync::{LazyLock, Mutex};

use crate::graphs::is_captured;
use crate::handles::new_handle;
use crate::launches::launched;
use crate::machine::{lock, machine};
use crate::memory::{self, accesses, graph_pool};
use crate::out::{Out, text};
use crate::state::Fact;
use crate::status::{Answer, Refusal};
use crate::threads::current_device;
use crate::{arguments, graphs, images};

/// Ignores a registration: its names do not matter here.
pub(crate) fn ignore() {}

/// `__cudaInitModule`.
pub(crate) fn module_is_ready() -> u8 {
    1
}

/// `dim3`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dim3([u32; 3]);

thread_local! {
    /// The configuration of the next launch on this thread: grid, block, shared memory and stream.
    static CONFIGURED: Cell<(Dim3, Dim3, usize, usize)> = const { Cell::new((Dim3([1; 3]), Dim3([1; 3]), 0, 0)) };
}

/// `__cudaPushCallConfiguration`: 0 lets the launch proceed.
pub(crate) fn push_configuration(grid: Dim3, block: Dim3, shared: usize, stream: usize) -> u32 {
    CONFIGURED.set((grid, block, shared, stream));
    0
}

/// `__cudaPopCallConfiguration`: the next launch takes its arguments from here.
pub(crate) fn pop_configuration(
    grid: Out<Dim3>,
    block: Out<Dim3>,
    shared: Out<usize>,
    stream: Out<usize>,
) -> c_int {
    let configured = CONFIGURED.get();
    grid.set_if_wanted(configured.0);
    block.set_if_wanted(configured.1);
    shared.set_if_wanted(configured.2);
    stream.set_if_wanted(configured.3);
    0
}

pub(crate) fn launch(
    function: usize,
    grid: Dim3,
    _block: Dim3,
    arguments: *const *const u8,
    _shared: usize,
    stream: usize,
) -> Answer {
    images::runs(function)?;
    arguments::record(function, grid.0, arguments, stream);
    launched(stream);
    Ok(())
}

/// `cudaLaunchConfig_t` and `CUlaunchConfig`. The driver's has 4 bytes for the shared memory, and 4 unused bytes.
#[repr(C)]
pub(crate) struct Configuration {
    grid: Dim3,
    block: Dim3,
    shared: usize,
    stream: usize,
}

/// `cudaLaunchKernelExC`.
pub(crate) fn launch_configured(
    configuration: *const Configuration,
    function: usize,
    arguments: *const *const u8,
) -> Answer {
    launch_configured_by_driver(configuration, function, arguments, std::ptr::null())
}

/// `cuLaunchKernelEx`.
pub(crate) fn launch_configured_by_driver(
    configuration: *const Configuration,
    function: usize,
    arguments: *const *const u8,
    extra: *const *const c_void,
) -> Answer {
    images::runs(function)?;
    // SAFETY: the caller passes a pointer to a configuration, or null.
    let configuration = unsafe { configuration.as_ref() }.ok_or(Refusal::InvalidValue)?;
    arguments::record_by_driver(function, configuration.grid.0, arguments, extra, configuration.stream);
    launched(configuration.stream);
    Ok(())
}

/// `cuLaunchKernel`.
#[allow(clippy::too_many_arguments, reason = "the driver's signature")]
pub(crate) fn launch_by_driver(
    function: usize,
    grid_x: u32,
    grid_y: u32,
    grid_z: u32,
    _block_x: u32,
    _block_y: u32,
    _block_z: u32,
    _shared: u32,
    stream: usize,
    arguments: *const *const u8,
    extra: *const *const c_void,
) -> Answer {
    arguments::record_by_driver(function, [grid_x, grid_y, grid_z], arguments, extra, stream);
    launched(stream);
    Ok(())
}

/// `cuLaunchCooperativeKernel`, which takes no further settings.
#[allow(clippy::too_many_arguments, reason = "the driver's signature")]
pub(crate) fn launch_cooperative_by_driver(
    function: usize,
    grid_x: u32,
    grid_y: u32,
    grid_z: u32,
    _block_x: u32,
    _block_y: u32,
    _block_z: u32,
    _shared: u32,
    stream: usize,
    arguments: *const *const u8,
) -> Answer {
    arguments::record(function, [grid_x, grid_y, grid_z], arguments, stream);
    launched(stream);
    Ok(())
}

pub(crate) fn launch_graph(executable: usize, stream: usize) -> Answer {
    // A launch on a captured stream becomes a node.
    if !is_captured(stream) {
        graph_pool::launch(executable)?;
    }
    accesses::record(stream, |found| graphs::accesses(executable).iter().for_each(|&word| found.word(word)));
    launched(stream);
    Ok(())
}

/// `cudaMemcpyToSymbol`: writes a variable of a module, which is no memory of the program.
pub(crate) fn launch_on_default_stream() -> Answer {
    accesses::record_words(0, &[]);
    launched(0);
    Ok(())
}

/// `__cudaGetKernel`, `cudaGetFuncBySymbol`: the function's address serves as the handle.
pub(crate) fn kernel(handle: Out<usize>, function: usize) -> Answer {
    handle.set(function)
}

/// `cudaFuncGetAttributes`: a kernel with modest requirements.
pub(crate) fn attributes(out: Out<u8>, function: usize) -> Answer {
    let chosen = images::chosen(function, current_device()?)?;
    let mut bytes = [0u8; 144];
    let mut int = |at: usize, value: i32| bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
    // driver_types.h: threads per block, registers, PTX and binary version, available shared memory.
    for (at, value) in
        [(24, 1024), (28, 32), (32, chosen.ptx as i32), (36, chosen.binary as i32), (44, 48 << 10), (48, -1)]
    {
        int(at, value);
    }
    out.set_bytes(&bytes)
}

/// `cuFuncGetAttribute`, with the numbers of cuda.h.
pub(crate) fn driver_attribute(value: Out<c_int>, which: c_int, _function: usize) -> Answer {
    let capability = machine().fact(current_device()?, Fact::ComputeCapability) as c_int;
    value.set(match which {
        0 => 1024,
        4 => 32,
        5 | 6 => capability,
        8 => 48 << 10,
        _ => 0,
    })
}

/// Blocks of a kernel that fit on one multiprocessor, limited by threads only.
pub(crate) fn occupancy(blocks: Out<c_int>, _function: usize, block_size: c_int, _shared: usize) -> Answer {
    let device = current_device()?;
    let threads = machine().fact(device, Fact::ThreadsPerMultiprocessor) as c_int;
    let most = machine().fact(device, Fact::BlocksPerMultiprocessor) as c_int;
    blocks.set((threads / block_size.max(1)).clamp(1, most.max(1)))
}

pub(crate) fn occupancy_with_flags(
    blocks: Out<c_int>,
    function: usize,
    block_size: c_int,
    shared: usize,
    _flags: u32,
) -> Answer {
    occupancy(blocks, function, block_size, shared)
}

/// `cuOccupancyMaxPotentialBlockSize`. The runtime's counterpart is a template in a header, not a call.
pub(crate) fn best_block_size(grid: Out<c_int>, block: Out<c_int>) -> Answer {
    let device = current_device()?;
    grid.set(machine().fact(device, Fact::Multiprocessors) as c_int * 2)?;
    block.set(1024)
}

/// `cuOccupancyMaxPotentialClusterSize`: the size that every kernel may use.
pub(crate) fn largest_cluster(blocks: Out<c_int>) -> Answer {
    blocks.set(8)
}

/// Device memory of a global variable. Each variable has its own piece, so writes to it do no harm.
pub(crate) fn symbol_address(address: Out<u64>, symbol: usize) -> Answer {
    static VARIABLES: LazyLock<Mutex<HashMap<(usize, usize), u64>>> = LazyLock::new(Mutex::default);
    let device = current_device()?;
    let mut variables = lock(&VARIABLES);
    let at = match variables.get(&(device, symbol)) {
        Some(&at) => at,
        None => {
            // Its bytes are part of the context's.
            let at = lock(memory::of(device))
                .space
                .take(memory::PIECE, memory::PIECE)
                .ok_or(Refusal::OutOfMemory)?;
            variables.insert((device, symbol), at);
            at
        }
    };
    address.set(at)
}

/// `cuModuleGetGlobal`.
pub(crate) fn module_global(address: Out<u64>, bytes: Out<usize>, module: usize, _name: usize) -> Answer {
    bytes.set_if_wanted(memory::PIECE as usize);
    symbol_address(address, module)
}

pub(crate) fn load_module(module: Out<usize>, image: usize) -> Answer {
    let new = new_handle();
    arguments::load(new, image);
    module.set(new)
}

/// `cuModuleLoad`, `cudaLibraryLoadFromFile`.
pub(crate) fn load_module_file(module: Out<usize>, path: *const c_char) -> Answer {
    let new = new_handle();
    if let Some(path) = text(path) {
        arguments::load_file(new, path);
    }
    module.set(new)
}

pub(crate) fn function_of(function: Out<usize>, module: usize, name: *const c_char) -> Answer {
    let new = new_handle();
    arguments::know(new, module, text(name));
    function.set(new)
}

/// `cuLinkComplete`: returns an empty image, which is never read.
pub(crate) fn linked(_state: usize, image: Out<usize>, size: Out<usize>) -> Answer {
    static EMPTY: [u8; 1] = [0];
    image.set(EMPTY.as_ptr() as usize)?;
    size.set(0)
}
