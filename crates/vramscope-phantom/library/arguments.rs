//! The arguments of kernels: which device memory a launch accesses.

use std::collections::HashMap;
use std::ffi::c_void;
use std::ops::Range;
use std::sync::{LazyLock, Mutex};

use crate::handles::Objects;
use crate::images;
use crate::layouts::Layouts;
use crate::machine::{lock, machine};
use crate::memory::accesses::{self, Found};
use crate::state::Noticed;

/// A kernel whose parameters are known.
struct Kernel {
    /// The sizes of the parameters in bytes.
    sizes: Box<[u32]>,
    lists: Option<Lists>,
    /// Whether parameters may contain a [`Calculator`].
    has_calculator: bool,
}

/// Kernels that were launched, by the address of their stub or by their handle; `None` if their parameters are unknown. PyTorch launches
/// some hundreds.
static KERNELS: LazyLock<Mutex<HashMap<usize, Option<&'static Kernel>>>> = LazyLock::new(Mutex::default);

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
    keep(function, name, sizes);
}

fn keep(function: usize, name: Option<&str>, sizes: Option<Box<[u32]>>) -> Option<&'static Kernel> {
    if sizes.is_none() {
        notice(name);
    }
    let kernel = sizes.map(|sizes| {
        let lists = name.and_then(|name| Lists::of(name, &sizes));
        let has = |part: &str| name.is_some_and(|name| name.contains(part));
        let has_calculator = has("TensorIterator") || has("OffsetCalculator");
        &*Box::leak(Box::new(Kernel { sizes, lists, has_calculator }))
    });
    lock(&KERNELS).insert(function, kernel);
    kernel
}

fn notice(name: Option<&str>) {
    let name = name.unwrap_or("?");
    let end = name.floor_char_boundary(crate::state::NAME_BYTES);
    machine().notice(Noticed::UnknownParameters, &name[..end]);
}

fn kernel(function: usize) -> Option<&'static Kernel> {
    if let Some(&known) = lock(&KERNELS).get(&function) {
        return known;
    }
    // Without the lock: reading the image may take milliseconds.
    let (name, sizes) = images::layout(function);
    keep(function, name, sizes)
}

/// Records the accesses of a launch on a grid. `arguments` is an array with the address of each argument, or null.
pub(crate) fn record(function: usize, grid: [u32; 3], arguments: *const *const u8, stream: usize) {
    accesses::record(stream, |found| match kernel(function) {
        Some(kernel) if kernel.sizes.is_empty() || !arguments.is_null() => {
            add(kernel, grid, arguments, found);
        }
        _ => found.unknown(),
    });
}

fn add(kernel: &Kernel, grid: [u32; 3], arguments: *const *const u8, found: &mut Found) {
    for (i, &size) in kernel.sizes.iter().enumerate() {
        // SAFETY: the caller passes the address of an argument of this size for each parameter.
        let argument = unsafe { *arguments.add(i) };
        if argument.is_null() || size < 8 {
            continue;
        }
        // SAFETY: as above.
        let argument = unsafe { std::slice::from_raw_parts(argument, size as usize) };
        match &kernel.lists {
            Some(lists) if lists.parameter == i => lists.add(argument, grid, found),
            _ if kernel.has_calculator => match Calculator::find(argument, accesses::is_address) {
                Some(Calculator { bytes }) => {
                    found.bytes(&argument[..bytes.start / 8 * 8]);
                    found.bytes(&argument[bytes.end..]);
                }
                None => found.bytes(argument),
            },
            _ => found.bytes(argument),
        }
    }
}

/// PyTorch's calculator of offsets (`OffsetCalculator`, `ATen/cuda/detail/OffsetCalculator.cuh`) in a parameter, before an address for each
/// of its tensors. It is initialized for as many dimensions as the tensors have: the rest may have addresses of earlier launches.
#[derive(Debug, PartialEq, Eq)]
struct Calculator {
    /// Its bytes. The end is a multiple of 8.
    bytes: Range<usize>,
}

impl Calculator {
    /// Maximum number of dimensions.
    const DIMENSIONS: usize = 25;
    /// Bytes of the number of dimensions and of the size of each, as `IntDivider`: 12 bytes.
    const SIZES: usize = 4 + 12 * Self::DIMENSIONS;

    fn find(argument: &[u8], is_address: impl Fn(u64) -> bool) -> Option<Self> {
        let words = argument.as_chunks::<4>().0;
        let word = |at: usize| words.get(at).map(|&word| u32::from_le_bytes(word));
        let begins_at = |at: usize| {
            let dimensions =
                word(at).filter(|&count| (1..=Self::DIMENSIONS as u32).contains(&count))? as usize;
            (0..dimensions)
                .all(|i| is_divider(word(at + 1 + 3 * i), word(at + 2 + 3 * i), word(at + 3 + 3 * i)))
                .then_some(4 * at)
        };
        let longest = argument.len().checked_sub(Self::SIZES)?;
        let start = (0..=longest / 4).find_map(begins_at)?;
        // Behind the strides of each tensor, there is an address for each.
        let addresses = |tensors: usize| {
            let at = (start + Self::SIZES + 4 * Self::DIMENSIONS * tensors).next_multiple_of(8);
            let all = argument.get(at..at + 8 * tensors)?.as_chunks().0;
            all.iter().all(|&word| is_address(u64::from_le_bytes(word))).then_some(at)
        };
        let end = (1..=8).rev().find_map(addresses)?;
        Some(Self { bytes: start..end })
    }
}

/// Whether these numbers are an `IntDivider`: a divisor, and the factor and the shift that divide by it.
fn is_divider(divisor: Option<u32>, factor: Option<u32>, shift: Option<u32>) -> bool {
    let (Some(divisor @ 1..), Some(factor), Some(shift @ 0..32)) = (divisor, factor, shift) else {
        return false;
    };
    let power = 1_u64 << shift;
    let is_smallest = power >= divisor.into() && (shift == 0 || power / 2 < divisor.into());
    is_smallest && ((power - u64::from(divisor)) << 32) / u64::from(divisor) + 1 == factor.into()
}

/// PyTorch's arrays of addresses in one parameter, of which a launch uses a part. The rest is not initialized: it may have addresses of
/// earlier launches.
#[derive(Debug, PartialEq, Eq)]
struct Lists {
    /// Number of the parameter.
    parameter: usize,
    kind: ListKind,
}

#[derive(Debug, PartialEq, Eq)]
enum ListKind {
    /// `TensorListMetadata` and its variants (`ATen/native/cuda/MultiTensorApply.cuh`): lists of `tensors` addresses, their sizes, further
    /// values, and the tensor of each block (1 byte).
    Foreach { lists: usize, tensors: usize, has_steps: bool, blocks_at: usize },
    /// `CatArrInputTensorMetadata` (`ATen/native/cuda/Shape.cu`), which begins with an address for each row of the grid.
    Concatenation,
}

impl Lists {
    /// The arrays of a kernel, by its mangled name.
    fn of(name: &str, sizes: &[u32]) -> Option<Self> {
        if name.contains("CatArrayBatchedCopy") && sizes.len() >= 2 {
            return Some(Self { parameter: 1, kind: ListKind::Concatenation });
        }
        // The name, whether each tensor has the address of a number of steps, and bytes after the blocks.
        let kinds = [
            ("32FusedOptimizerTensorListMetadataI", true, 4),
            ("28TensorListScalarListMetadataI", false, 0),
            ("18TensorListMetadataI", false, 4),
        ];
        let find = |&(kind, has_steps, end)| Some((name.split_once(kind)?.1, has_steps, end));
        let (rest, has_steps, end) = kinds.iter().find_map(find)?;
        let (scalar, rest) = rest.split_once("Li")?;
        let lists: usize = rest.split_once('E')?.0.parse().ok().filter(|lists| (1..=5).contains(lists))?;
        let more = match scalar {
            "" => {
                if has_steps {
                    8
                } else {
                    0
                }
            }
            "a" | "b" | "h" => 1,
            "s" => 2,
            "f" | "i" => 4,
            "d" | "l" | "N3c107complexIfEE" => 8,
            "N3c107complexIdEE" => 16,
            _ => return None,
        };
        /// The tensor and the chunk of 320 blocks.
        const BLOCKS: usize = 320 * 5;
        let size = *sizes.first()? as usize;
        let each = 8 * lists + 8 + more;
        let tensors = size.checked_sub(BLOCKS + end)? / each;
        let is_layout = (tensors * each + BLOCKS + end).next_multiple_of(8) == size;
        let kind = ListKind::Foreach { lists, tensors, has_steps, blocks_at: tensors * each };
        is_layout.then_some(Self { parameter: 0, kind })
    }

    fn add(&self, argument: &[u8], grid: [u32; 3], found: &mut Found) {
        let words = argument.as_chunks::<8>().0;
        let mut word =
            |at: usize| words.get(at).into_iter().for_each(|&word| found.word(u64::from_le_bytes(word)));
        match self.kind {
            ListKind::Concatenation => (0..grid[1] as usize).for_each(word),
            ListKind::Foreach { lists, tensors, has_steps, blocks_at } => {
                let blocks = argument.get(blocks_at..).unwrap_or_default();
                let mut before = None;
                for &tensor in blocks.iter().take((grid[0] as usize).min(320)) {
                    // The blocks of a tensor follow each other.
                    if before.replace(tensor) != Some(tensor) {
                        (0..lists).for_each(|list| word(list * tensors + usize::from(tensor)));
                        if has_steps {
                            word((lists + 1) * tensors + usize::from(tensor));
                        }
                    }
                }
            }
        }
    }
}

/// Records the accesses of a launch by the driver. The arguments are an array like that of [`record`], or else `extra` is a list of
/// settings with a buffer of all arguments.
pub(crate) fn record_by_driver(
    function: usize,
    grid: [u32; 3],
    arguments: *const *const u8,
    extra: *const *const c_void,
    stream: usize,
) {
    if !arguments.is_null() || extra.is_null() {
        return record(function, grid, arguments, stream);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_calculator_of_offsets_is_found_by_its_dividers() {
        let is_address = |word: u64| (1000..2000).contains(&word);
        // Divisors and factors of ATen/cuda/detail/IntegerDivider.cuh: a factor is 2^32 * (2^shift - divisor) / divisor + 1.
        let dividers = [[1, 1, 0], [3, 1_431_655_766, 2], [64, 1, 6]];
        assert!(dividers.iter().all(|of| is_divider(Some(of[0]), Some(of[1]), Some(of[2]))));
        assert!(
            !is_divider(Some(3), Some(1_431_655_765), Some(2)) && !is_divider(Some(64), Some(1), Some(7))
        );
        // What was there before: addresses.
        let mut argument: Vec<u8> = std::iter::repeat_n(1500_u64.to_le_bytes(), 63).flatten().collect();
        argument[..4].copy_from_slice(&3_u32.to_le_bytes());
        for (place, word) in argument[4..].as_chunks_mut().0.iter_mut().zip(dividers.concat()) {
            *place = u32::to_le_bytes(word);
        }
        argument.extend([7_u32, 7].map(u32::to_le_bytes).concat());
        argument.truncate(504);
        for address in [1001_u64, 1002, 5] {
            argument.extend(address.to_le_bytes());
        }
        // Three dimensions of two tensors.
        assert_eq!(Calculator::find(&argument, is_address), Some(Calculator { bytes: 0..504 }));
        let inner = [&1003_u64.to_le_bytes()[..], &argument].concat();
        assert_eq!(Calculator::find(&inner, is_address), Some(Calculator { bytes: 8..512 }));
        argument[5] = 1;
        assert_eq!(Calculator::find(&argument, is_address), None);
    }

    #[test]
    fn lists_of_tensors_are_known_by_name_and_size() {
        let of = |name: &str, size: u32| {
            let lists =
                Lists::of(&format!("_ZN2at6native25multi_tensor_apply_kernelINS0_{name}E"), &[size, 1]);
            lists.map(|lists| match lists.kind {
                ListKind::Foreach { lists, tensors, has_steps, blocks_at } => {
                    (lists, tensors, has_steps, blocks_at)
                }
                ListKind::Concatenation => (0, 0, false, 0),
            })
        };
        // ATen/native/cuda/MultiTensorApply.cuh: 110, 64, 48, 36 and 30 tensors; 96 with a scalar for each.
        assert_eq!(of("18TensorListMetadataILi1E", 3368), Some((1, 110, false, 1760)));
        assert_eq!(of("18TensorListMetadataILi4E", 3048), Some((4, 36, false, 1440)));
        assert_eq!(of("32FusedOptimizerTensorListMetadataILi4E", 3336), Some((4, 36, true, 1728)));
        assert_eq!(of("28TensorListScalarListMetadataIfLi1E", 3520), Some((1, 96, false, 1920)));
        assert_eq!(of("28TensorListScalarListMetadataIbLi2E", 3200), Some((2, 64, false, 1600)));
        // Another layout.
        assert_eq!(of("18TensorListMetadataILi1E", 3372), None);
        assert_eq!(of("18TensorListMetadataILi9E", 3368), None);
        assert_eq!(Lists::of("_Z3addPfi", &[8, 4]), None);
    }
}
