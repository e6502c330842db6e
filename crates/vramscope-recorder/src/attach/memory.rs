//! The memory of another process: its mapped files, their functions, and unused bytes in them.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;

/// Size of a page in bytes.
const PAGE: u64 = 4096;
/// Maximum bytes of a table of symbols. That of the C library has 100 KB.
const MOST_SYMBOLS: u64 = 8 << 20;
/// Size of a symbol in bytes.
const SYMBOL: usize = 24;

/// The memory of a process, through its file.
#[derive(Debug)]
pub(super) struct Memory(File);

impl Memory {
    /// Opens the memory of a process, or of one of its threads.
    pub(super) fn open(process: u32) -> io::Result<Self> {
        OpenOptions::new().read(true).write(true).open(format!("/proc/{process}/mem")).map(Self)
    }

    pub(super) fn read(&self, at: u64, bytes: usize) -> io::Result<Vec<u8>> {
        let mut read = vec![0; bytes];
        self.0.read_exact_at(&mut read, at)?;
        Ok(read)
    }

    pub(super) fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, at)
    }

    pub(super) fn word(&self, at: u64) -> io::Result<u64> {
        let mut word = [0; 8];
        self.0.read_exact_at(&mut word, at)?;
        Ok(u64::from_le_bytes(word))
    }
}

/// A mapped range of a file.
#[derive(Debug, Clone)]
pub(super) struct Mapping {
    pub(super) range: Range<u64>,
    pub(super) is_executable: bool,
    is_private: bool,
    offset: u64,
    /// Path of the file; empty for other memory.
    path: String,
}

impl Mapping {
    /// File name of the object.
    pub(super) fn name(&self) -> &str {
        let path = self.path.strip_suffix(" (deleted)").unwrap_or(&self.path);
        path.rsplit('/').next().unwrap_or_default()
    }
}

/// The mapped ranges of a process, by address.
pub(super) fn mappings(maps: &str) -> Vec<Mapping> {
    let parse = |line: &str| {
        let mut words = line.splitn(6, ' ');
        let (range, rights, offset) = (words.next()?, words.next()?.as_bytes(), words.next()?);
        let (start, end) = range.split_once('-')?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        Some(Mapping {
            range: number(start)?..number(end)?,
            is_executable: rights.get(2) == Some(&b'x'),
            is_private: rights.get(3) == Some(&b'p'),
            offset: number(offset)?,
            path: words.nth(2).unwrap_or_default().trim_start().to_owned(),
        })
    };
    maps.lines().filter_map(parse).collect()
}

/// A loaded object, by the headers in memory.
#[derive(Debug)]
pub(super) struct Object<'a> {
    pub(super) first: &'a Mapping,
    memory: &'a Memory,
    /// Difference between addresses in memory and in the file.
    base: u64,
    /// Kind, rights, address and size in memory of each part.
    parts: Vec<(u32, u32, u64, u64)>,
}

/// Kinds and rights of parts.
const LOADED: u32 = 1;
const DYNAMIC: u32 = 2;
const EXECUTABLE: u32 = 1;
const WRITABLE: u32 = 2;

fn number<const BYTES: usize>(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word[..BYTES].copy_from_slice(bytes.get(at..at + BYTES).unwrap_or(&[0; 8][..BYTES]));
    u64::from_le_bytes(word)
}

impl<'a> Object<'a> {
    /// The objects that are mapped from their first byte.
    pub(super) fn all(memory: &'a Memory, mappings: &'a [Mapping]) -> Vec<Self> {
        let firsts = mappings.iter().filter(|m| m.offset == 0 && m.path.starts_with('/') && m.is_private);
        firsts.filter_map(|first| Self::at(memory, first)).collect()
    }

    /// The object that begins with this mapping, if it is one for this processor.
    fn at(memory: &'a Memory, first: &'a Mapping) -> Option<Self> {
        let header = memory.read(first.range.start, 64).ok()?;
        // The first two are 64 bits and little-endian.
        let is_object = header.starts_with(b"\x7fELF\x02\x01") && number::<2>(&header, 18) == 62;
        let (at, size, count) =
            (number::<8>(&header, 32), number::<2>(&header, 54) as usize, number::<2>(&header, 56) as usize);
        if !is_object || size < 56 || count > 64 {
            return None;
        }
        let headers = memory.read(first.range.start.checked_add(at)?, size * count).ok()?;
        let parts: Vec<_> = headers
            .chunks_exact(size)
            .map(|h| {
                let (kind, rights) = (number::<4>(h, 0) as u32, number::<4>(h, 4) as u32);
                (kind, rights, number::<8>(h, 16), number::<8>(h, 40))
            })
            .collect();
        let lowest = parts.iter().filter(|part| part.0 == LOADED).map(|part| part.2).min()?;
        let base = first.range.start.checked_sub(lowest & !(PAGE - 1))?;
        Some(Self { first, memory, base, parts })
    }

    /// The address and size of each of the object's functions and variables with these names; 0 for one that it does not define.
    pub(super) fn symbols<const N: usize>(&self, names: [&str; N]) -> Option<[(u64, u64); N]> {
        let &(.., dynamic, size) = self.parts.iter().find(|part| part.0 == DYNAMIC)?;
        let table =
            self.memory.read(self.base.checked_add(dynamic)?, usize::try_from(size.min(1 << 16)).ok()?);
        let table = table.ok()?;
        let entry = |tag: u64| {
            let found = table.chunks_exact(16).find(|entry| number::<8>(entry, 0) == tag);
            found.map(|entry| number::<8>(entry, 8))
        };
        // The loader has made addresses of these offsets, or not.
        let address = |tag| entry(tag).map(|at| if at < self.base { at + self.base } else { at });
        let (texts, symbols, text_bytes) = (address(5)?, address(6)?, entry(10)?);
        // Linkers place the texts behind the symbols.
        let bytes = texts.checked_sub(symbols).filter(|&bytes| bytes.max(text_bytes) < MOST_SYMBOLS)?;
        let texts = self.memory.read(texts, text_bytes as usize).ok()?;
        let symbols = self.memory.read(symbols, bytes as usize / SYMBOL * SYMBOL).ok()?;
        let mut found = [(0, 0); N];
        for symbol in symbols.chunks_exact(SYMBOL) {
            let (name, value) = (number::<4>(symbol, 0) as usize, number::<8>(symbol, 8));
            let is_defined = value != 0 && number::<2>(symbol, 6) != 0;
            let text = texts.get(name..).unwrap_or_default();
            let has_name =
                |name: &&str| text.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&0));
            if let Some(place) = names.iter().position(|name| is_defined && has_name(name)) {
                found[place] = (self.base.wrapping_add(value), number::<8>(symbol, 16));
            }
        }
        Some(found)
    }

    /// The unused bytes behind the object's code, up to the end of the page.
    pub(super) fn behind_code(&self) -> Option<Range<u64>> {
        self.behind(|rights| rights & EXECUTABLE != 0)
    }

    /// The unused bytes behind the object's variables, up to the end of the page.
    pub(super) fn behind_variables(&self) -> Option<Range<u64>> {
        self.behind(|rights| rights & WRITABLE != 0)
    }

    fn behind(&self, has_rights: impl Fn(u32) -> bool) -> Option<Range<u64>> {
        let parts = self.parts.iter().filter(|part| part.0 == LOADED && has_rights(part.1));
        let end = parts.map(|part| part.2.saturating_add(part.3)).max()?;
        let end = self.base.checked_add(end)?;
        // Code is fetched in lines of 64 bytes.
        let free = end.next_multiple_of(64)..end.next_multiple_of(PAGE);
        (free.start < free.end).then_some(free)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_this_process_are_found_by_name() {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let (mappings, memory) = (mappings(&maps), Memory::open(std::process::id()).unwrap());
        let objects = Object::all(&memory, &mappings);
        let libc = objects.iter().find(|object| object.first.name() == "libc.so.6").unwrap();
        let [geteuid, none] = libc.symbols(["geteuid", "no_such_function"]).unwrap();
        assert_eq!((geteuid.0, none.0), (vramscope_bare::sys::geteuid as *const () as u64, 0));
        let free = libc.behind_code().unwrap();
        let executable = mappings.iter().filter(|m| m.is_executable && m.name() == "libc.so.6");
        assert!(executable.clone().any(|m| m.range.contains(&free.start) && free.end <= m.range.end));
        assert!(memory.read(free.start, 64).unwrap().iter().all(|&byte| byte == 0));
    }
}
