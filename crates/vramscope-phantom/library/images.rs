//! The machine code of kernels, and the image that a device runs. A kernel without code for a device does not run there, and
//! libraries choose kernels by the architecture of the code.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ffi::{c_char, c_void};
use std::sync::{LazyLock, Mutex, OnceLock};

use vramscope_bare::zstd;

use crate::architecture::cubin_runs;
use crate::handles::new_handle;
use crate::layouts::{self, Layouts, number};
use crate::lz4;
use crate::machine::{count_modules_with, lock, machine};
use crate::state::Fact;
use crate::status::{Answer, Refusal};
use crate::threads::current_device;
use crate::version;

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
    layouts: Mutex<KnownLayouts>,
}

/// The layouts of a fat binary's kernels, as far as they were read.
#[derive(Default)]
struct KnownLayouts {
    layouts: Layouts,
    /// Number of images that were read, smallest first. All images of a kernel have the same parameters.
    read: usize,
}

impl FatBinary {
    /// The images, read on first use: most kernels of a library never run.
    fn images(&self) -> &[Image] {
        self.images
            .get_or_init(|| entries_at(self.at).unwrap_or_default().iter().map(|entry| entry.image).collect())
    }

    /// The sizes of a kernel's parameters.
    fn layout(&self, name: &str) -> Option<Box<[u32]>> {
        let mut known = lock(&self.layouts);
        let mut entries = None;
        loop {
            if let Some(layout) = known.layouts.get(name) {
                return Some(layout.clone());
            }
            let entries = entries.get_or_insert_with(|| {
                let mut entries = entries_at(self.at).unwrap_or_default();
                entries.sort_by_key(Entry::size);
                entries
            });
            entries.get(known.read)?.add_layouts(&mut known.layouts);
            known.read += 1;
        }
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

/// An image in a fat binary.
struct Entry<'d> {
    image: Image,
    /// Contains the compression.
    flags: u64,
    bytes: &'d [u8],
    /// Size in bytes of the decompressed image; 0 if it is not compressed.
    unpacked: u64,
}

/// Largest decompressed image that is read, in bytes.
const LARGEST: u64 = 1 << 30;

impl<'d> Entry<'d> {
    /// Size in bytes of the decompressed image.
    fn size(&self) -> u64 {
        self.unpacked.max(self.bytes.len() as u64)
    }

    /// The decompressed image. `None` if it is damaged.
    fn read(&self) -> Option<Cow<'d, [u8]>> {
        const LZ4: u64 = 0x2000;
        const ZSTD: u64 = 0x8000;
        let most = self.unpacked.min(LARGEST) as usize;
        match self.flags & (LZ4 | ZSTD) {
            0 => Some(Cow::Borrowed(self.bytes)),
            LZ4 => lz4::decompress(self.bytes, most).map(Cow::Owned),
            _ => zstd::decompress(self.bytes, most).map(Cow::Owned),
        }
    }

    fn add_layouts(&self, layouts: &mut Layouts) {
        let Some(image) = self.read() else { return };
        match self.image {
            Image::Cubin(_) => drop(layouts::add_cubin(&image, layouts)),
            Image::Ptx(_) => layouts::add_ptx(&String::from_utf8_lossy(&image), layouts),
        }
    }
}

/// The images of a fat binary. `None` for an unknown format.
fn entries_at(at: usize) -> Option<Vec<Entry<'static>>> {
    // SAFETY: the program registered this address as a wrapper structure; the magic number confirms it.
    let wrapper = unsafe { (at as *const Wrapper).as_ref()? };
    if wrapper.magic != WRAPPER || wrapper.data.is_null() {
        return None;
    }
    entries_in(wrapper.data)
}

/// The images in the data of a fat binary.
fn entries_in(data: *const u8) -> Option<Vec<Entry<'static>>> {
    // SAFETY: the caller passes data with a header of 16 bytes, which holds the length of the rest.
    let header = unsafe { std::slice::from_raw_parts(data, 16) };
    if number(header, 0, 4)? != DATA.into() {
        return None;
    }
    let (header, body) = (number(header, 6, 2)?, number(header, 8, 8)?);
    // SAFETY: as above.
    let data = unsafe { std::slice::from_raw_parts(data, header.checked_add(body)? as usize) };
    let mut rest = data.get(header as usize..)?;
    let mut entries = Vec::new();
    while let (Some(kind), Some(header), Some(size)) =
        (number(rest, 0, 2), number(rest, 4, 4), number(rest, 8, 8))
    {
        let arch = number(rest, 28, 4)? as u32;
        let image = match kind {
            1 => Some(Image::Ptx(arch)),
            2 => Some(Image::Cubin(arch)),
            _ => None,
        };
        let (entry, after) =
            rest.split_at_checked(header.checked_add(size).filter(|&bytes| bytes > 0)? as usize)?;
        let bytes = entry.get(header as usize..).unwrap_or_default();
        // The size without the padding at the end; 0 if the image is not compressed.
        let packed = number(entry, 16, 4)? as usize;
        let bytes = bytes.get(..packed).filter(|_| packed > 0).unwrap_or(bytes);
        let field = |at: usize| if header as usize >= at + 8 { number(entry, at, 8) } else { Some(0) };
        let (flags, unpacked) = (field(40)?, field(56)?);
        entries.extend(image.map(|image| Entry { image, flags, bytes, unpacked }));
        rest = after;
    }
    Some(entries)
}

/// The layouts of the kernels in an image that a program loads: a cubin, a fat binary or PTX.
pub(crate) fn layouts_of_image(image: usize) -> Layouts {
    let mut layouts = Layouts::new();
    let start = image as *const u8;
    if start.is_null() {
        return layouts;
    }
    // SAFETY: the caller passes an image, or null. The shortest one, an empty PTX text, ends with a zero.
    let first = unsafe { start.read() };
    let of_fat_binary = match first {
        0x7f => {
            // SAFETY: a file of this type has a header of 64 bytes.
            let header = unsafe { &*start.cast::<[u8; 64]>() };
            if let Some(size) = layouts::cubin_size(header) {
                // SAFETY: the header has the size of the file.
                layouts::add_cubin(unsafe { std::slice::from_raw_parts(start, size) }, &mut layouts);
            }
            None
        }
        byte if byte == WRAPPER as u8 => entries_at(image),
        byte if byte == DATA as u8 => entries_in(start),
        _ => {
            if let Some(text) = crate::out::text(start.cast()) {
                layouts::add_ptx(text, &mut layouts);
            }
            None
        }
    };
    of_fat_binary.iter().flatten().for_each(|entry| entry.add_layouts(&mut layouts));
    layouts
}

#[derive(Default)]
struct Registered {
    /// By the handle that the registration returned.
    binaries: HashMap<usize, &'static FatBinary>,
    /// Kernels, by the address of their stub function in the program.
    kernels: HashMap<usize, Kernel>,
}

/// A registered kernel.
#[derive(Clone, Copy)]
struct Kernel {
    binary: &'static FatBinary,
    /// Address of its name, which the program keeps as long as its code.
    name: usize,
}

static REGISTERED: LazyLock<Mutex<Registered>> = LazyLock::new(Mutex::default);

/// Registers a fat binary, and returns its handle.
pub(crate) fn register_binary(binary: *const c_void) -> usize {
    let handle = new_handle();
    count_modules_with(eager_bytes);
    // PyTorch registers about 500, and never unregisters them.
    let binary = Box::leak(Box::new(FatBinary {
        at: binary as usize,
        images: OnceLock::new(),
        layouts: Mutex::default(),
    }));
    lock(&REGISTERED).binaries.insert(handle, binary);
    handle
}

/// Bytes of machine code that a context of a device with this compute capability loads at once: that of all registered binaries if modules
/// are loaded eagerly, else 0. An eighth of an image is tables and names, which stay on the host: 95 of 707 MiB in the images of PyTorch
/// 2.15 for 8.0.
fn eager_bytes(capability: u32) -> u64 {
    if !loads_eagerly(std::env::var("CUDA_MODULE_LOADING").ok().as_deref(), version::runtime()) {
        return 0;
    }
    let binaries: Vec<usize> = lock(&REGISTERED).binaries.values().map(|binary| binary.at).collect();
    binaries.into_iter().map(|at| loaded_bytes(&entries_at(at).unwrap_or_default(), capability)).sum::<u64>()
        / 8
        * 7
}

/// Size in bytes of the machine code that a device chooses. The driver compiles PTX, whose code has an unknown size.
fn loaded_bytes(entries: &[Entry<'_>], capability: u32) -> u64 {
    let images: Vec<Image> = entries.iter().map(|entry| entry.image).collect();
    let chosen = choose(&images, capability).map(|chosen| Image::Cubin(chosen.binary));
    entries.iter().filter(|entry| Some(entry.image) == chosen).map(Entry::size).sum()
}

/// Whether a context loads all modules at once, given CUDA_MODULE_LOADING and the runtime's version (CUDA programming guide, lazy loading:
/// since 11.7 with LAZY, on Linux since 12.2 by default; PyTorch sets LAZY).
fn loads_eagerly(setting: Option<&str>, runtime: i32) -> bool {
    match setting {
        Some("EAGER") => true,
        Some("LAZY") => runtime < 11_070,
        _ => runtime < 12_020,
    }
}

/// `__cudaRegisterFunction`.
pub(crate) fn register_kernel(binary: usize, function: usize, name: usize) {
    let registered = &mut *lock(&REGISTERED);
    if let Some(binary) = registered.binaries.get(&binary) {
        registered.kernels.insert(function, Kernel { binary, name });
    }
}

/// The name of a registered kernel, and the sizes of its parameters. `None` for each that is unknown.
pub(crate) fn layout(function: usize) -> (Option<&'static str>, Option<Box<[u32]>>) {
    let Some(Kernel { binary, name }) = lock(&REGISTERED).kernels.get(&function).copied() else {
        return (None, None);
    };
    let name = crate::out::text(name as *const c_char);
    (name, name.and_then(|name| binary.layout(name)))
}

/// The image that a device chooses for a kernel. Unknown kernels count as compiled for the device.
///
/// # Errors
/// Returns `NoKernelImage` if no image of the kernel runs on the device.
pub(crate) fn chosen(function: usize, device: usize) -> Result<Chosen, Refusal> {
    let capability = machine().fact(device, Fact::ComputeCapability) as u32;
    let binary = lock(&REGISTERED).kernels.get(&function).map(|kernel| kernel.binary);
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
    fn modules_are_loaded_eagerly_on_request_and_in_old_releases() {
        assert!(loads_eagerly(Some("EAGER"), 13_000) && loads_eagerly(None, 11_080));
        assert!(loads_eagerly(Some("LAZY"), 11_060) && !loads_eagerly(Some("LAZY"), 11_070));
        assert!(!loads_eagerly(None, 12_020));
        let entry = |image, size| Entry { image, flags: 0, bytes: &[0; 8], unpacked: size };
        let entries =
            [entry(Image::Cubin(80), 100), entry(Image::Cubin(90), 200), entry(Image::Ptx(90), 400)];
        assert_eq!([80, 86, 90, 120].map(|device| loaded_bytes(&entries, device)), [100, 100, 200, 0]);
    }

    #[test]
    fn the_images_of_a_fat_binary_are_read() {
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
        let read: Vec<(Image, u64)> = entries_at(&raw const wrapper as usize)
            .unwrap()
            .iter()
            .map(|entry| (entry.image, entry.size()))
            .collect();
        assert_eq!(read, [(Image::Cubin(80), 24), (Image::Cubin(90), 8), (Image::Ptx(90), 16)]);
        let other = Wrapper { magic: 1, ..wrapper };
        assert!(entries_at(&raw const other as usize).is_none());
    }
    /// PTX texts: one as it is, one compressed by LZ4 (without matches), one by Zstandard. Each has a kernel.
    #[test]
    fn layouts_come_from_compressed_images_too() {
        let text =
            |name: &str| format!(".entry {name}(.param .u64 p_0, .param .u32 p_1) {{ ret; }}").into_bytes();
        let of_lz4 = |text: Vec<u8>| [vec![0xf0, (text.len() - 15) as u8], text].concat();
        let mut body = Vec::new();
        for (flags, unpacked, bytes) in [
            (0x11_u64, 0, text("plain")),
            (0x2011, text("lz4").len(), of_lz4(text("lz4"))),
            (0x8011, text("zstd").len(), ::zstd::bulk::compress(&text("zstd"), 3).unwrap()),
            (0x8011, 9, vec![1, 2, 3]),
        ] {
            let padded = bytes.len().next_multiple_of(8);
            let mut entry = vec![0; 64];
            entry[0] = 1;
            entry[4] = 64;
            entry[8..16].copy_from_slice(&(padded as u64).to_le_bytes());
            if unpacked > 0 {
                entry[16..20].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
            }
            entry[40..48].copy_from_slice(&flags.to_le_bytes());
            entry[56..64].copy_from_slice(&(unpacked as u64).to_le_bytes());
            entry.extend(bytes);
            entry.resize(64 + padded, 0);
            body.extend(entry);
        }
        let data =
            [&DATA.to_le_bytes()[..], &[1, 0, 16, 0], &(body.len() as u64).to_le_bytes(), &body].concat();
        let wrapper = Wrapper { magic: WRAPPER, version: 1, data: data.as_ptr() };
        let at = &raw const wrapper as usize;
        let binary = FatBinary { at, images: OnceLock::new(), layouts: Mutex::default() };
        for name in ["zstd", "plain", "lz4", "plain"] {
            assert_eq!(binary.layout(name).as_deref(), Some(&[8, 4][..]), "{name}");
        }
        assert_eq!(binary.layout("other"), None);
        assert_eq!(layouts_of_image(at).len(), 3);
        assert_eq!(layouts_of_image(data.as_ptr() as usize).len(), 3);
    }
}
