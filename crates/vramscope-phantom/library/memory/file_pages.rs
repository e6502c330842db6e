//! Unmodified host memory that is mapped from a file. Copying it to a device needs no memory, because the file still has the
//! bytes.
//!
//! A program may map a model from its file (safetensors, `torch.load(mmap=True)`) and copy it to a device. The copy takes no
//! host memory beyond the operating system's page cache of the file.

use std::fs::File;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};

use super::PAGE;

/// Smaller copies do not justify the cost of reading `/proc/self/maps`.
const LEAST: u64 = 1 << 20;

/// The part of a file that a copy covered.
pub(super) struct Part {
    path: String,
    inode: u64,
    offset: u64,
    size: u64,
    /// The file's modification time at the copy, in nanoseconds since the Unix epoch.
    changed: i128,
}

impl Part {
    /// Reads the bytes. `None` if the file is gone or was changed.
    pub(super) fn read(&self) -> Option<Vec<u8>> {
        let file = File::open(&self.path).ok()?;
        if self.changed != last_change(&file)? || self.inode != file.metadata().ok()?.ino() {
            return None;
        }
        let mut bytes = vec![0; self.size as usize];
        file.read_exact_at(&mut bytes, self.offset).ok()?;
        Some(bytes)
    }
}

fn last_change(file: &File) -> Option<i128> {
    let metadata = file.metadata().ok()?;
    Some(i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec()))
}

/// The part of a file that `size` host bytes at `address` are mapped from, if the process did not write to them.
pub(super) fn mapped(address: u64, size: u64) -> Option<Part> {
    if size < LEAST {
        return None;
    }
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let part = maps.lines().find_map(|line| part_of(line, address, size))?;
    let file = File::open(&part.path).ok()?;
    let part = Part { changed: last_change(&file)?, ..part };
    if part.inode != file.metadata().ok()?.ino() || is_changed(address, size)? {
        return None;
    }
    Some(part)
}

/// The part of a file that a line of `/proc/self/maps` maps to these addresses: `start-end permissions offset device inode
/// path`.
fn part_of(line: &str, address: u64, size: u64) -> Option<Part> {
    let (range, rest) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let number = |hex: &str| u64::from_str_radix(hex, 16).ok();
    let (start, end) = (number(start)?, number(end)?);
    if address < start || address + size > end {
        return None;
    }
    let mut fields = rest.splitn(5, ' ');
    let offset = number(fields.nth(1)?)?;
    let inode = fields.nth(1)?.parse().ok()?;
    let path = fields.next()?.trim_start().to_owned();
    (path.starts_with('/')).then(|| Part {
        path,
        inode,
        offset: offset + (address - start),
        size,
        changed: 0,
    })
}

/// Whether the process wrote to any of these pages, which makes them private. Uses `/proc/self/pagemap`: bit 63 is set for a
/// present page, bit 62 for a swapped-out page, bit 61 for a page of a file.
fn is_changed(address: u64, size: u64) -> Option<bool> {
    const PAGES: usize = 1 << 16;
    let (first, last) = (address / PAGE, (address + size - 1) / PAGE);
    let pagemap = File::open("/proc/self/pagemap").ok()?;
    let mut entries = vec![0; PAGES * 8];
    for from in (first..=last).step_by(PAGES) {
        let count = (last - from + 1).min(PAGES as u64) as usize;
        let entries = &mut entries[..count * 8];
        pagemap.read_exact_at(entries, from * 8).ok()?;
        let is_own = |entry: &[u8; 8]| {
            let entry = u64::from_le_bytes(*entry);
            let (present, swapped, file) = (entry >> 63 & 1, entry >> 62 & 1, entry >> 61 & 1);
            swapped == 1 || (present == 1 && file == 0)
        };
        if entries.as_chunks().0.iter().any(is_own) {
            return Some(true);
        }
    }
    Some(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_of_a_mapped_file_is_read_from_proc_maps() {
        let line =
            "7f00000000-7f00100000 r--p 00002000 fe:00 1234                       /models/a b.safetensors";
        let part = part_of(line, 0x7f_0000_1000, 0x1000).unwrap();
        assert_eq!((part.path.as_str(), part.inode, part.offset), ("/models/a b.safetensors", 1234, 0x3000));
        assert!(part_of(line, 0x7f_000f_f000, 0x1001).is_none());
        assert!(part_of("7f00000000-7f00100000 rw-p 00000000 00:00 0 ", 0x7f_0000_0000, 16).is_none());
    }
}
