//! The machine code of kernels, and the image that a device runs. A kernel without code for a device does not run there, and
//! libraries choose kernels by the architecture of the code.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{LazyLock, Mutex, OnceLock};

use crate::architecture::cubin_runs;
use crate::handles::new_handle;
use crate::machine::{lock, machine};
use crate::state::Fact;
use crate::status::{Answer, Refusal};
use crate::threads::current_device;

/// One image of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Image {
    /// Machine code for an architecture, as `10 * major + minor`. Later minor versions run it, too.
    Cubin(u32),
    /// PTX, which the driver compiles for its architecture and all later ones.
    Ptx(u32),
}

/// The image that a device chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chosen {
    /// The architecture that the code was written for, and the architecture of the machine code, both as `10 * major + minor`.
    pub(crate) ptx: u32,
    pub(crate) binary: u32,
}

/// Chooses the latest machine code of the device's major version that is not later than the device, or else the latest PTX
/// (CUDA programming guide: binary and PTX compatibility).
fn choose(images: &[Image], device: u32) -> Option<Chosen> {
    let of = |wanted: fn(&Image) -> Option<u32>| images.iter().filter_map(wanted);
    let cubins = of(|image| if let Image::Cubin(arch) = image { Some(*arch) } else { None });
    let ptx = of(|image| if let Image::Ptx(arch) = image { Some(*arch) } else { None });
    let ptx = ptx.filter(|&arch| arch <= device);
    let cubin = cubins.filter(|&arch| cubin_runs(arch, device)).max();
    cubin
        .map(|arch| Chosen { ptx: arch, binary: arch })
        .or_else(|| ptx.max().map(|arch| Chosen { ptx: arch, binary: device }))
}

/// A fat binary: the kernels that `nvcc` embeds in a library, with several images of each.
struct FatBinary {
    /// Address of its structure, which stays valid while the binary is registered.
    at: usize,
    images: OnceLock<Vec<Image>>,
}

impl FatBinary {
    /// The images, read on first use: most kernels of a library never run.
    fn images(&self) -> &[Image] {
        self.images.get_or_init(|| read_images(self.at).unwrap_or_default())
    }
}

/// `__fatBinC_Wrapper_t` of fatbinary_section.h.
#[repr(C)]
struct Wrapper {
    magic: u32,
    version: u32,
    data: *const u8,
}

const WRAPPER: u32 = 0x4662_43b1;

/// Magic number of the data. A version and the header length (16 bits each) and the length of the rest follow it.
const DATA: u32 = 0xba55_ed50;

/// The images of a fat binary. `None` for an unknown format.
fn read_images(at: usize) -> Option<Vec<Image>> {
    // SAFETY: the program registered this address as a wrapper structure; the magic number confirms it.
    let wrapper = unsafe { (at as *const Wrapper).as_ref()? };
    if wrapper.magic != WRAPPER || wrapper.data.is_null() {
        return None;
    }
    // SAFETY: the structure points to data with a header of 16 bytes, which holds the length of the rest.
    let header = unsafe { std::slice::from_raw_parts(wrapper.data, 16) };
    if number(header, 0, 4)? != DATA.into() {
        return None;
    }
    let (header, body) = (number(header, 6, 2)?, number(header, 8, 8)?);
    // SAFETY: as above.
    let data = unsafe { std::slice::from_raw_parts(wrapper.data, header.checked_add(body)? as usize) };
    let mut rest = data.get(header as usize..)?;
    let mut images = Vec::new();
    // Each image has a header: its kind, the header's length, the length of the image and, at offset 28, the architecture.
    while let (Some(kind), Some(header), Some(size)) =
        (number(rest, 0, 2), number(rest, 4, 4), number(rest, 8, 8))
    {
        let arch = number(rest, 28, 4)? as u32;
        match kind {
            1 => images.push(Image::Ptx(arch)),
            2 => images.push(Image::Cubin(arch)),
            _ => {}
        }
        rest = rest.get(header.checked_add(size).filter(|&bytes| bytes > 0)? as usize..)?;
    }
    Some(images)
}

/// A little-endian number of `length` bytes.
fn number(bytes: &[u8], at: usize, length: usize) -> Option<u64> {
    Some(bytes.get(at..at + length)?.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
}

#[derive(Default)]
struct Registered {
    /// By the handle that the registration returned.
    binaries: HashMap<usize, &'static FatBinary>,
    /// Kernels, by the address of their stub function in the program.
    kernels: HashMap<usize, &'static FatBinary>,
}

static REGISTERED: LazyLock<Mutex<Registered>> = LazyLock::new(Mutex::default);

/// Registers a fat binary, and returns its handle.
pub(crate) fn register_binary(binary: *const c_void) -> usize {
    let handle = new_handle();
    // PyTorch registers about 500, and never unregisters them.
    let binary = Box::leak(Box::new(FatBinary { at: binary as usize, images: OnceLock::new() }));
    lock(&REGISTERED).binaries.insert(handle, binary);
    handle
}

/// `__cudaRegisterFunction`.
pub(crate) fn register_kernel(binary: usize, function: usize) {
    let registered = &mut *lock(&REGISTERED);
    if let Some(binary) = registered.binaries.get(&binary) {
        registered.kernels.insert(function, binary);
    }
}

/// The image that a device chooses for a kernel. Unknown kernels count as compiled for the device.
///
/// # Errors
/// Returns `NoKernelImage` if no image of the kernel runs on the device.
pub(crate) fn chosen(function: usize, device: usize) -> Result<Chosen, Refusal> {
    let capability = machine().fact(device, Fact::ComputeCapability) as u32;
    let binary = lock(&REGISTERED).kernels.get(&function).copied();
    let images = binary.map_or(&[][..], FatBinary::images);
    if images.is_empty() {
        return Ok(Chosen { ptx: capability, binary: capability });
    }
    choose(images, capability).ok_or(Refusal::NoKernelImage)
}

/// Checks that a kernel runs on this thread's current device.
///
/// # Errors
/// Returns `NoKernelImage` if no image of the kernel runs on the device.
pub(crate) fn runs(function: usize) -> Answer {
    chosen(function, current_device()?).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_code_of_the_same_major_version_is_taken_before_ptx() {
        let images = [Image::Cubin(80), Image::Cubin(86), Image::Cubin(90), Image::Ptx(90)];
        let chosen = |device| choose(&images, device).map(|chosen| (chosen.ptx, chosen.binary));
        assert_eq!(chosen(80), Some((80, 80)));
        assert_eq!(chosen(89), Some((86, 86)));
        assert_eq!(chosen(90), Some((90, 90)));
        // PTX of an earlier architecture is compiled for a later one.
        assert_eq!(chosen(120), Some((90, 120)));
        assert_eq!(chosen(75), None);
        // Tegra (87) and the desktop architectures do not run each other's machine code.
        assert_eq!(chosen(87), None);
        assert_eq!(choose(&[Image::Cubin(87), Image::Ptx(80)], 87), Some(Chosen { ptx: 87, binary: 87 }));
        assert_eq!(choose(&[Image::Cubin(87)], 89), None);
    }

    #[test]
    fn a_fat_binary_says_its_images() {
        let image = |kind: u16, arch: u32, size: u64| {
            let mut bytes = vec![0; 64];
            bytes[0..2].copy_from_slice(&kind.to_le_bytes());
            bytes[4..8].copy_from_slice(&64u32.to_le_bytes());
            bytes[8..16].copy_from_slice(&size.to_le_bytes());
            bytes[28..32].copy_from_slice(&arch.to_le_bytes());
            bytes.resize(64 + size as usize, 7);
            bytes
        };
        let body = [image(2, 80, 24), image(2, 90, 8), image(1, 90, 16)].concat();
        let mut data = DATA.to_le_bytes().to_vec();
        data.extend([1, 0, 16, 0]);
        data.extend((body.len() as u64).to_le_bytes());
        data.extend(&body);
        let wrapper = Wrapper { magic: WRAPPER, version: 1, data: data.as_ptr() };
        let read = read_images(&raw const wrapper as usize);
        assert_eq!(read, Some(vec![Image::Cubin(80), Image::Cubin(90), Image::Ptx(90)]));
        let other = Wrapper { magic: 1, ..wrapper };
        assert_eq!(read_images(&raw const other as usize), None);
    }
}
