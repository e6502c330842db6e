//! The mapped ranges of this process, and the loaded objects with them.

use std::io::Read as _;
use std::ops::Range;

use vramscope_bare::objects::{self, Object};

/// Calls `visit` with each loaded object, and with the mapped ranges. Until all are visited, the loader neither adds nor removes objects.
/// `visit` must not call the loader.
pub(crate) fn each_object(mut visit: impl FnMut(Object<'_>, &Mapped)) {
    let mut mapped = Mapped::new();
    let mut is_read = false;
    objects::each(|object| {
        if !is_read {
            // Not before: another object could take the place of one in the list.
            mapped.read();
            is_read = true;
        }
        visit(object, &mapped);
        true
    });
}

/// The mapped ranges of addresses, and whether each can be written.
#[derive(Debug)]
pub(crate) struct Mapped(Vec<(Range<usize>, bool)>);

impl Mapped {
    /// An empty list with room for those of a large program.
    pub(crate) fn new() -> Self {
        Self(Vec::with_capacity(1 << 16))
    }

    /// Reads the list of this process, without allocating memory: further ranges than there is room for are left out.
    pub(crate) fn read(&mut self) {
        self.0.clear();
        let Ok(mut file) = std::fs::File::open("/proc/self/maps") else { return };
        let mut text = [0; 1 << 13];
        let mut used = 0;
        while let Ok(bytes @ 1..) = file.read(&mut text[used..]) {
            used += bytes;
            let mut start = 0;
            while let Some(length) = text[start..used].iter().position(|&byte| byte == b'\n') {
                if let Some(range) = mapped_range(&text[start..start + length])
                    && self.0.len() < self.0.capacity()
                {
                    self.0.push(range);
                }
                start += length + 1;
            }
            text.copy_within(start..used, 0);
            used -= start;
        }
    }

    /// Whether an address can be written; `None` if it is not mapped.
    pub(crate) fn is_writable(&self, address: usize) -> Option<bool> {
        let after = self.0.partition_point(|(range, _)| range.end <= address);
        self.0.get(after).filter(|(range, _)| range.contains(&address)).map(|&(_, is_writable)| is_writable)
    }

    /// The parts of a range that can be written.
    pub(crate) fn writable(&self, of: Range<usize>) -> impl Iterator<Item = Range<usize>> {
        let first = self.0.partition_point(|(range, _)| range.end <= of.start);
        let parts = self.0[first..].iter().take_while(move |(range, _)| range.start < of.end);
        let parts = parts.filter(|(_, is_writable)| *is_writable);
        parts.map(move |(range, _)| range.start.max(of.start)..range.end.min(of.end))
    }
}

/// A line of `/proc/self/maps`.
fn mapped_range(line: &[u8]) -> Option<(Range<usize>, bool)> {
    let line = std::str::from_utf8(line.get(..line.len().min(64))?).ok()?;
    let (range, rest) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let number = |text| usize::from_str_radix(text, 16).ok();
    Some((number(start)?..number(end)?, rest.starts_with("rw")))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    static VARIABLE: AtomicUsize = AtomicUsize::new(7);

    #[test]
    fn variables_are_writable_and_functions_are_not() {
        let mut mapped = Mapped::new();
        mapped.read();
        let address = &raw const VARIABLE as usize;
        assert_eq!(mapped.is_writable(address), Some(true));
        assert_eq!(mapped.is_writable(mapped_range as *const () as usize), Some(false));
        assert_eq!(mapped.is_writable(0), None);
        assert!(mapped.writable(address..address + 8).eq(std::iter::once(address..address + 8)));
    }
}
