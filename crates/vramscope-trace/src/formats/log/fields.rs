//! Decodes the fields of records.

use super::LONGEST_STRING;
use super::numbered::Numbered;
use crate::error::ReadError;

pub(super) type Result<T> = std::result::Result<T, ReadError>;

/// The rest of a chunk's payload.
pub(super) struct Fields<'c> {
    rest: &'c [u8],
    /// Stream offset of the payload's end.
    end: u64,
}

impl<'c> Fields<'c> {
    /// Reads the fields of a payload that begins at the stream offset `offset`.
    pub(super) fn new(payload: &'c [u8], offset: u64) -> Self {
        Self { rest: payload, end: offset + payload.len() as u64 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Stream offset of the next byte.
    pub(super) fn offset(&self) -> u64 {
        self.end - self.rest.len() as u64
    }

    fn take(&mut self, n: usize) -> Result<&'c [u8]> {
        let Some((taken, rest)) = self.rest.split_at_checked(n) else {
            return Err(damaged(self.offset(), "a record goes beyond its chunk"));
        };
        self.rest = rest;
        Ok(taken)
    }

    pub(super) fn bytes<const N: usize>(&mut self) -> Result<[u8; N]> {
        let Some((&taken, rest)) = self.rest.split_first_chunk() else {
            return Err(damaged(self.offset(), "a record goes beyond its chunk"));
        };
        self.rest = rest;
        Ok(taken)
    }

    pub(super) fn address(&mut self) -> Result<u64> {
        self.bytes().map(u64::from_le_bytes)
    }

    pub(super) fn uint(&mut self) -> Result<u64> {
        let mut length = 0;
        match leb128fmt::decode_uint_slice::<u64, 64>(self.rest, &mut length) {
            Ok(n) => {
                self.rest = &self.rest[length..];
                Ok(n)
            }
            Err(e) if e.is_more_bytes_needed() => Err(damaged(self.end, "a record goes beyond its chunk")),
            Err(_) => Err(damaged(self.offset(), "a number beyond 64 bits")),
        }
    }

    pub(super) fn int(&mut self) -> Result<i64> {
        let n = self.uint()?;
        Ok((n >> 1) as i64 ^ -((n & 1) as i64))
    }

    /// Reads the number of a string, site or stack. Returns its index; `None` if it is missing because of damage.
    pub(super) fn number<T>(&mut self, table: &Numbered<T>, what: &'static str) -> Result<Option<usize>> {
        let at = self.offset();
        let n = self.uint()?;
        find(n, table, what, at)
    }

    /// Like [`number`](Self::number), for an optional reference.
    pub(super) fn optional_number<T>(
        &mut self,
        table: &Numbered<T>,
        what: &'static str,
    ) -> Result<Option<usize>> {
        let at = self.offset();
        let n = self.uint()?.checked_sub(1);
        n.map_or(Ok(None), |n| find(n, table, what, at))
    }

    /// Reads the number of items that follow. Each item takes at least one byte.
    pub(super) fn count(&mut self) -> Result<usize> {
        let at = self.offset();
        let n = self.uint()?;
        usize::try_from(n).ok().filter(|&n| n <= self.rest.len()).ok_or_else(|| {
            damaged(at, format!("a list of {n} items in a chunk with {} bytes left", self.rest.len()))
        })
    }

    pub(super) fn choice<T: Copy>(&mut self, from: &[T], what: &'static str) -> Result<T> {
        let at = self.offset();
        let [n] = self.bytes()?;
        Ok(from[within(u64::from(n), from.len(), what, at)?])
    }

    /// Reads an optional value, which follows a byte that is 1 if the value exists.
    pub(super) fn optional<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<Option<T>> {
        let there = self.choice(&super::BOOLS, "Boolean")?;
        there.then(|| read(self)).transpose()
    }

    pub(super) fn text(&mut self) -> Result<&'c str> {
        let at = self.offset();
        let n = self.uint()?;
        if n > LONGEST_STRING as u64 {
            return Err(damaged(at, format!("a string of {n} bytes")));
        }
        let bytes = self.take(n as usize)?;
        std::str::from_utf8(bytes).map_err(|_| damaged(at, "a string that is not UTF-8"))
    }
}

fn find<T>(n: u64, table: &Numbered<T>, what: &'static str, at: u64) -> Result<Option<usize>> {
    let index = table.index(n);
    if index.is_none() && table.is_whole() {
        within(n, table.len(), what, at)?;
    }
    Ok(index)
}

fn within(n: u64, count: usize, what: &'static str, at: u64) -> Result<usize> {
    let i = usize::try_from(n).ok().filter(|&i| i < count);
    i.ok_or_else(|| damaged(at, format!("{what} {n}, but there are only {count}")))
}

pub(super) fn damaged(offset: u64, what: impl Into<String>) -> ReadError {
    ReadError::DamagedLog { offset, what: what.into() }
}
