//! The sizes of kernels' parameters, from machine code and PTX.

use std::collections::HashMap;

/// The sizes in bytes of the parameters of kernels, by the kernel's name.
pub(crate) type Layouts = HashMap<Box<str>, Box<[u32]>>;

/// Longest parameter, in bytes. All parameters of a kernel together have at most 32,764 bytes.
const LONGEST: u64 = 1 << 15;

/// Adds the kernels of a cubin, an ELF file. A section `.nv.info.NAME` describes each kernel.
pub(crate) fn add_cubin(file: &[u8], layouts: &mut Layouts) -> Option<()> {
    let sections = Sections::of(file)?;
    for section in sections.iter() {
        let Some(name) = sections.name(&section).and_then(|name| name.strip_prefix(".nv.info.")) else {
            continue;
        };
        let sizes = file.get(section.bytes).and_then(parameters);
        if let Some(sizes) = sizes {
            layouts.entry(name.into()).or_insert(sizes);
        }
    }
    Some(())
}

/// The sections of an ELF file.
struct Sections<'f> {
    headers: &'f [u8],
    names: &'f [u8],
}

struct Section {
    name: usize,
    bytes: std::ops::Range<usize>,
}

impl Section {
    fn of(header: &[u8]) -> Option<Self> {
        let from = usize::try_from(number(header, 24, 8)?).ok()?;
        let end = from.checked_add(usize::try_from(number(header, 32, 8)?).ok()?)?;
        Some(Self { name: number(header, 0, 4)? as usize, bytes: from..end })
    }
}

/// Size of `Elf64_Shdr`.
const SECTION_HEADER: usize = 64;

impl<'f> Sections<'f> {
    fn of(file: &'f [u8]) -> Option<Self> {
        if !file.starts_with(b"\x7fELF\x02\x01") {
            return None;
        }
        let at = usize::try_from(number(file, 0x28, 8)?).ok()?;
        let (size, count) = (number(file, 0x3a, 2)?, number(file, 0x3c, 2)? as usize);
        if size != SECTION_HEADER as u64 {
            return None;
        }
        let headers = file.get(at..at.checked_add(count * SECTION_HEADER)?)?;
        let names = headers.chunks_exact(SECTION_HEADER).nth(number(file, 0x3e, 2)? as usize)?;
        Some(Self { headers, names: file.get(Section::of(names)?.bytes)? })
    }

    fn iter(&self) -> impl Iterator<Item = Section> {
        self.headers.chunks_exact(SECTION_HEADER).filter_map(Section::of)
    }

    fn name(&self, section: &Section) -> Option<&'f str> {
        let name = self.names.get(section.name..)?;
        std::str::from_utf8(name.split(|&byte| byte == 0).next()?).ok()
    }
}

/// Size of the cubin whose first bytes these are, from its header: the section headers are at its end.
pub(crate) fn cubin_size(header: &[u8; 64]) -> Option<usize> {
    if !header.starts_with(b"\x7fELF") {
        return None;
    }
    let end = |at: usize, size: usize, count: usize| {
        let entries = number(header, size, 2)? * number(header, count, 2)?;
        number(header, at, 8)?.checked_add(entries)
    };
    usize::try_from(end(0x20, 0x36, 0x38)?.max(end(0x28, 0x3a, 0x3c)?)).ok()
}

/// The sizes of a kernel's parameters, from its attributes. An attribute is a format, a number and 16 bits, which are the size of a value
/// that follows if the format is 4. `None` for an invalid list.
fn parameters(mut info: &[u8]) -> Option<Box<[u32]>> {
    /// `EIFMT_SVAL`: a value follows.
    const SIZED: u8 = 4;
    /// `EIATTR_KPARAM_INFO`: an index (4 bytes), the parameter's number (2 bytes), its offset (2 bytes), and 32 bits, of which the upper
    /// 14 are its size.
    const PARAMETER: u8 = 0x17;
    let mut found = Vec::new();
    while !info.is_empty() {
        let (&[format, attribute, low, high], rest) = info.split_first_chunk()?;
        info = rest;
        if format == SIZED {
            let (value, rest) = info.split_at_checked(u16::from_le_bytes([low, high]).into())?;
            info = rest;
            if attribute == PARAMETER {
                found.push((number(value, 4, 2)?, (number(value, 8, 4)? >> 18) as u32));
            }
        }
    }
    found.sort_unstable();
    // Without gaps, the number of a parameter is its place.
    let is_whole = found.iter().enumerate().all(|(i, &(ordinal, _))| ordinal == i as u64);
    is_whole.then(|| found.into_iter().map(|(_, size)| size).collect())
}

/// Adds the kernels of a PTX text, whose declarations are `.entry NAME(.param .u64 NAME, .param .align 8 .b8 NAME[456])`.
pub(crate) fn add_ptx(text: &str, layouts: &mut Layouts) {
    for entry in text.split(".entry").skip(1) {
        let Some((name, rest)) = entry.split_once(['(', '{']) else { continue };
        // A kernel without parameters may have no parentheses.
        let parameters = if entry[name.len()..].starts_with('(') {
            rest.split_once(')').map(|(list, _)| list)
        } else {
            Some("")
        };
        let parameters = parameters.unwrap_or_default().trim();
        let sizes: Option<Box<[u32]>> = if parameters.is_empty() {
            Some(Box::default())
        } else {
            parameters.split(',').map(ptx_size).collect()
        };
        if let Some(sizes) = sizes {
            layouts.entry(name.trim().into()).or_insert(sizes);
        }
    }
}

/// Size in bytes of a parameter that PTX declares.
fn ptx_size(declaration: &str) -> Option<u32> {
    let sizes = [("8", 1), ("16", 2), ("32", 4), ("64", 8), ("128", 16)];
    // `.u64`, `.b8`, `.f32`; `.align` has no number behind its letter.
    let element = declaration.split_whitespace().find_map(|word| {
        let bits = word.strip_prefix('.')?.strip_prefix(['b', 'f', 's', 'u'])?;
        sizes.iter().find(|(name, _)| *name == bits).map(|&(_, size)| size)
    })?;
    let Some((_, count)) = declaration.split_once('[') else { return Some(element) };
    count
        .split(']')
        .next()?
        .trim()
        .parse::<u32>()
        .ok()?
        .checked_mul(element)
        .filter(|&size| u64::from(size) <= LONGEST)
}

/// A little-endian number of `length` bytes.
pub(crate) fn number(bytes: &[u8], at: usize, length: usize) -> Option<u64> {
    Some(bytes.get(at..at + length)?.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An attribute with a value.
    fn attribute(number: u8, value: &[u8]) -> Vec<u8> {
        [&[4, number][..], &(value.len() as u16).to_le_bytes(), value].concat()
    }

    fn parameter(ordinal: u16, offset: u16, size: u32) -> Vec<u8> {
        let value = [
            &[0; 4][..],
            &ordinal.to_le_bytes(),
            &offset.to_le_bytes(),
            &(size << 18 | 0x1f000).to_le_bytes(),
        ];
        attribute(0x17, &value.concat())
    }

    /// An ELF file with these sections.
    fn elf(sections: &[(&str, Vec<u8>)]) -> Vec<u8> {
        let mut names = vec![0];
        let mut file = vec![0; 64];
        let mut headers = vec![0; SECTION_HEADER];
        let mut header = |name: usize, from: usize, size: usize| {
            let mut header = [0; SECTION_HEADER];
            header[..4].copy_from_slice(&(name as u32).to_le_bytes());
            header[4] = 1;
            header[24..32].copy_from_slice(&(from as u64).to_le_bytes());
            header[32..40].copy_from_slice(&(size as u64).to_le_bytes());
            headers.extend(header);
        };
        for (name, bytes) in sections {
            header(names.len(), file.len(), bytes.len());
            names.extend(name.bytes().chain([0]));
            file.extend(bytes);
        }
        header(0, file.len(), names.len());
        file.extend(&names);
        let at = file.len() as u64;
        let count = sections.len() as u16 + 2;
        file.extend(headers);
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        file[0x28..0x30].copy_from_slice(&at.to_le_bytes());
        file[0x3a..0x3c].copy_from_slice(&(SECTION_HEADER as u16).to_le_bytes());
        file[0x3c..0x3e].copy_from_slice(&count.to_le_bytes());
        file[0x3e..0x40].copy_from_slice(&(count - 1).to_le_bytes());
        file
    }

    #[test]
    fn the_sizes_of_parameters_are_read_from_a_cubin() {
        let of_both = [
            attribute(0x37, &[0; 4]),
            vec![3, 0x19, 0, 2],
            parameter(2, 16, 456),
            parameter(1, 8, 4),
            parameter(0, 0, 8),
            vec![1, 4, 0, 0],
        ]
        .concat();
        let file = elf(&[
            (".nv.info", vec![9; 30]),
            (".nv.info._Z4bothPfif", of_both),
            (".nv.info.none", attribute(0x37, &[0; 4])),
            (".nv.info.gap", parameter(1, 0, 8)),
            (".text.other", vec![7; 50]),
        ]);
        let mut layouts = Layouts::new();
        add_cubin(&file, &mut layouts).unwrap();
        assert_eq!(layouts.len(), 2, "{layouts:?}");
        assert_eq!(*layouts["_Z4bothPfif"], [8, 4, 456]);
        assert_eq!(*layouts["none"], [0; 0]);
        assert_eq!(cubin_size(file.first_chunk().unwrap()), Some(file.len()));
        // Whatever the bytes are, reading ends.
        for at in 0..file.len() {
            let mut changed = file.clone();
            changed[at] ^= 0xff;
            add_cubin(&changed, &mut Layouts::new());
            add_cubin(&file[..at], &mut Layouts::new());
        }
    }

    #[test]
    fn ptx_declares_the_sizes_of_parameters() {
        let text = ".version 7.1
.visible .entry _Z3addPfi(
\t.param .u64 _Z3addPfi_param_0,
\t.param .u32 _Z3addPfi_param_1
)
{ ld.param.u64 %rd1, [_Z3addPfi_param_0]; }
.visible .entry structure(
.param .align 8 .b8 structure_param_0[456],
.param .u64 .ptr .global .align 16 structure_param_1
)
.maxntid 128, 1, 1
{ ret; }
.entry nothing()
{ ret; }
.entry bare { ret; }
.entry odd(.param .texref odd_param_0) { ret; }";
        let mut layouts = Layouts::new();
        add_ptx(text, &mut layouts);
        let mut found: Vec<(&str, &[u32])> =
            layouts.iter().map(|(name, sizes)| (&**name, &**sizes)).collect();
        found.sort_unstable();
        assert_eq!(
            found,
            [("_Z3addPfi", &[8, 4][..]), ("bare", &[]), ("nothing", &[]), ("structure", &[456, 8])]
        );
    }
}
