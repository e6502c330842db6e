//! The machine code that comes with kernels, and which of it a device takes: a kernel without code for a device does not run
//! there, and libraries choose by the architecture that the code was made for.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{LazyLock, Mutex, OnceLock};

use crate::architecture::cubin_runs;
use crate::handles::new_handle;
use crate::machine::{lock, machine};
use crate::state::Fact;
use crate::status::{Answer, Refusal};
use crate::threads::current_device;

/// Kernels in one form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Image {
    /// Machine code for an architecture, as `10 * major + minor`: later minor versions run it, too.
    Cubin(u32),
    /// PTX, which the driver compiles for the architecture and all later ones.
    Ptx(u32),
}

/// What a device makes of a binary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chosen {
    /// The architecture that the code was written for, and the one that it runs as; `10 * major + minor`.
    pub(crate) ptx: u32,
    pub(crate) binary: u32,
}

/// Of machine code of the device's major version the latest that is not later than the device, else the latest PTX: CUDA's programming
/// guide, on compatibility of binaries and of PTX.
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

/// A fat binary: what `nvcc` puts into a library for its kernels, several images of each.
struct FatBinary {
    /// Where its structure is in memory; as long as it is registered it stays there.
    at: usize,
    images: OnceLock<Vec<Image>>,
}

impl FatBinary {
    /// Its images, read when they are first asked for: most kernels of a library never run.
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

/// How the data begins: this, a version and the header's length of 16 bits each, and the bytes after it.
const DATA: u32 = 0xba55_ed50;

/// The images of a fat binary; `None` where it is of no kind that is known.
fn read_images(at: usize) -> Option<Vec<Image>> {
    // SAFETY: the program registered this address as that of such a structure, and it says so itself.
    let wrapper = unsafe { (at as *const Wrapper).as_ref()? };
    if wrapper.magic != WRAPPER || wrapper.data.is_null() {
        return None;
    }
    // SAFETY: the structure points to data that begin with 16 bytes of header, which say how much follows.
    let header = unsafe { std::slice::from_raw_parts(wrapper.data, 16) };
    if number(header, 0, 4)? != DATA.into() {
        return None;
    }
    let (header, body) = (number(header, 6, 2)?, number(header, 8, 8)?);
    // SAFETY: as above.
    let data = unsafe { std::slice::from_raw_parts(wrapper.data, header.checked_add(body)? as usize) };
    let mut rest = data.get(header as usize..)?;
    let mut images = Vec::new();
    // Each image has a header: its kind and the header's own length, the bytes of the image, at 28 the architecture.
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

/// A number of `length` bytes, the lowest first.
fn number(bytes: &[u8], at: usize, length: usize) -> Option<u64> {
    Some(bytes.get(at..at + length)?.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
}

#[derive(Default)]
struct Registered {
    /// By the handle that registering gave.
    binaries: HashMap<usize, &'static FatBinary>,
    /// Kernels, by the address of the function that stands for one in the program.
    kernels: HashMap<usize, &'static FatBinary>,
}

static REGISTERED: LazyLock<Mutex<Registered>> = LazyLock::new(Mutex::default);

/// `__cudaRegisterFatBinary`: a program or a library brings its kernels.
pub(crate) fn register_binary(binary: *const c_void) -> usize {
    crate::unknown::look_at_new_objects();
    let handle = new_handle();
    // Some 500 of PyTorch's, which are never taken back.
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

/// What a device makes of a kernel. Kernels of which nothing is known are taken to be made for it.
///
/// # Errors
/// Where no image of it runs there.
pub(crate) fn chosen(function: usize, device: usize) -> Result<Chosen, Refusal> {
    let capability = machine().fact(device, Fact::ComputeCapability) as u32;
    let binary = lock(&REGISTERED).kernels.get(&function).copied();
    let images = binary.map_or(&[][..], FatBinary::images);
    if images.is_empty() {
        return Ok(Chosen { ptx: capability, binary: capability });
    }
    choose(images, capability).ok_or(Refusal::NoKernelImage)
}

/// Whether a kernel runs on the device that calls on this thread mean.
///
/// # Errors
/// Where no image of it runs there.
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
        // Tegra runs nothing of its siblings, and they nothing of it.
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
