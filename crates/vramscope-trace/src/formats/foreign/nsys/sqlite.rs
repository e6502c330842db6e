//! The rows of tables of an SQLite database, read from a copy in memory (<https://www.sqlite.org/fileformat2.html>).
//!
//! Indexes, views, other encodings than UTF-8 and journals are not read: an export has none of them.

use std::borrow::Cow;

/// First bytes of a database.
pub(super) const MAGIC: &[u8] = b"SQLite format 3\0";

/// Maximum height of a table's tree. A tree of this height has far more pages than a file can have.
const HIGHEST: usize = 20;

/// Maximum size of a row in bytes.
const LARGEST_ROW: u64 = 1 << 24;

/// What is wrong, and at which byte of the file.
#[derive(Debug)]
pub(super) struct Invalid {
    pub(super) offset: u64,
    pub(super) what: &'static str,
}

type Result<T> = std::result::Result<T, Invalid>;

/// A value of a row.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value<'b> {
    /// `NULL`, a real number or a blob.
    Other,
    Int(i64),
    Text(Cow<'b, str>),
}

impl Value<'_> {
    pub(super) fn int(&self) -> Option<i64> {
        if let Self::Int(number) = self { Some(*number) } else { None }
    }

    pub(super) fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }
}

/// A table: the page of its root, and its columns.
#[derive(Debug)]
pub(super) struct Table {
    root: u32,
    /// Names of the columns, in lower case.
    columns: Vec<String>,
    /// The column whose value is the row's number.
    row_number: Option<usize>,
}

impl Table {
    /// Returns the position of a column.
    pub(super) fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.eq_ignore_ascii_case(name))
    }
}

/// A database in memory.
pub(super) struct Database<'b> {
    bytes: &'b [u8],
    page_size: usize,
    /// Bytes of a page without the reserved bytes at its end.
    usable: usize,
}

impl<'b> Database<'b> {
    /// Opens a database that begins with [`MAGIC`].
    pub(super) fn open(bytes: &'b [u8]) -> Result<Self> {
        let invalid = |what| Invalid { offset: 16, what };
        let header = bytes.get(..100).ok_or(invalid("an SQLite database without its header"))?;
        let page_size = match u16::from_be_bytes([header[16], header[17]]) {
            1 => 1 << 16,
            size if size >= 512 && size.is_power_of_two() => usize::from(size),
            _ => return Err(invalid("an SQLite database with an invalid page size")),
        };
        let usable = page_size - usize::from(header[20]);
        if usable < 480 {
            return Err(invalid("an SQLite database with an invalid page size"));
        }
        if header[59] > 1 {
            return Err(Invalid { offset: 56, what: "an SQLite database in UTF-16, which is not read" });
        }
        Ok(Self { bytes, page_size, usable })
    }

    /// Returns the table with a name, if there is one.
    pub(super) fn table(&self, name: &str) -> Result<Option<Table>> {
        let schema = Table { root: 1, columns: Vec::new(), row_number: None };
        let mut found = None;
        let mut is_damaged = false;
        self.rows(&schema, |row| {
            if let [kind, of, _, Value::Int(root), Value::Text(sql)] = row
                && kind.text() == Some("table")
                && of.text().is_some_and(|of| of.eq_ignore_ascii_case(name))
            {
                is_damaged |= sql.contains('\0') || !sql.contains(')');
                let (columns, row_number) = columns(sql);
                found = u32::try_from(*root).ok().map(|root| Table { root, columns, row_number });
            }
            true
        })?;
        if is_damaged {
            return Err(Invalid { offset: 100, what: "a damaged statement of an SQLite table" });
        }
        Ok(found)
    }

    /// Calls `each` with every row of a table, in order, until it returns false.
    pub(super) fn rows(&self, table: &Table, mut each: impl FnMut(&[Value<'b>]) -> bool) -> Result<()> {
        let mut walk = Walk {
            database: self,
            seen: vec![false; self.bytes.len() / self.page_size + 2],
            unread: self.bytes.len() as u64,
            row_number: table.row_number,
            row: Vec::new(),
        };
        walk.page(table.root, 0, &mut each).map(drop)
    }

    /// Returns the bytes of a page, counted from 1, and their offset in the file.
    fn page(&self, number: u32) -> Result<(&'b [u8], usize)> {
        let invalid =
            Invalid { offset: self.bytes.len() as u64, what: "a page beyond the end of the SQLite database" };
        let start = (number as usize).checked_sub(1).and_then(|before| before.checked_mul(self.page_size));
        let bytes = start.and_then(|start| Some((self.bytes.get(start..)?.get(..self.usable)?, start)));
        bytes.ok_or(invalid)
    }
}

/// A walk through the tree of a table.
struct Walk<'d, 'b> {
    database: &'d Database<'b>,
    /// Whether a page was visited. No page belongs to two trees or twice to one.
    seen: Vec<bool>,
    /// Bytes that rows may still have. No two rows share a byte, so all of them are at most the file's.
    unread: u64,
    row_number: Option<usize>,
    row: Vec<Value<'b>>,
}

impl<'b> Walk<'_, 'b> {
    /// Walks the tree below a page. Returns false if `each` does not want more rows.
    fn page(
        &mut self,
        number: u32,
        height: usize,
        each: &mut impl FnMut(&[Value<'b>]) -> bool,
    ) -> Result<bool> {
        let (page, start) = self.database.page(number)?;
        let invalid = |what| Invalid { offset: start as u64, what };
        let seen = self
            .seen
            .get_mut(number as usize)
            .ok_or(invalid("a page beyond the end of the SQLite database"))?;
        if std::mem::replace(seen, true) || height > HIGHEST {
            return Err(invalid("a page of an SQLite table that contains itself"));
        }
        // The first page begins with the header of the file.
        let header = if number == 1 { 100 } else { 0 };
        let u16_at = |at: usize| Some(usize::from(u16::from_be_bytes(*page.get(at..)?.first_chunk()?)));
        let u32_at = |at: usize| Some(u32::from_be_bytes(*page.get(at..)?.first_chunk()?));
        let cut = || invalid("a cut page of an SQLite table");
        let is_leaf = match page.get(header) {
            Some(13) => true,
            Some(5) => false,
            _ => return Err(invalid("a page that is not one of an SQLite table")),
        };
        let cells = u16_at(header + 3).ok_or_else(cut)?;
        let pointers = header + if is_leaf { 8 } else { 12 };
        for cell in 0..cells {
            let at = u16_at(pointers + 2 * cell).ok_or_else(cut)?;
            let go_on = if is_leaf {
                let cell = page.get(at..).ok_or_else(cut)?;
                self.cell(cell, start + at)?;
                each(&self.row)
            } else {
                self.page(u32_at(at).ok_or_else(cut)?, height + 1, each)?
            };
            if !go_on {
                return Ok(false);
            }
        }
        if is_leaf { Ok(true) } else { self.page(u32_at(header + 8).ok_or_else(cut)?, height + 1, each) }
    }

    /// Reads the row of a cell, which begins at `offset` in the file.
    fn cell(&mut self, mut cell: &'b [u8], offset: usize) -> Result<()> {
        let invalid = |what| Invalid { offset: offset as u64, what };
        let cut = || invalid("a cut row of an SQLite table");
        let size = varint(&mut cell).ok_or_else(cut)?;
        let row_number = varint(&mut cell).ok_or_else(cut)?.cast_signed();
        if size > LARGEST_ROW {
            return Err(invalid("a row of more than 16 MiB in an SQLite table"));
        }
        let unread = self.unread.checked_sub(size);
        self.unread = unread.ok_or(invalid("rows of an SQLite table that share their bytes"))?;
        let (size, usable) = (size as usize, self.database.usable);
        // The part of a row that is in the page; section 1.6 of the format.
        let local = if size <= usable - 35 {
            size
        } else {
            let least = (usable - 12) * 32 / 255 - 23;
            let wanted = least + (size - least) % (usable - 4);
            if wanted <= usable - 35 { wanted } else { least }
        };
        let (here, rest) = cell.split_at_checked(local).ok_or_else(cut)?;
        let payload = if local == size {
            Cow::Borrowed(here)
        } else {
            let next = rest.first_chunk().ok_or_else(cut)?;
            Cow::Owned(self.overflowing(here, u32::from_be_bytes(*next), size, offset)?)
        };
        self.row.clear();
        match payload {
            Cow::Borrowed(bytes) => {
                values(bytes, |value| self.row.push(value.map_or(Value::Other, borrowed)))
            }
            Cow::Owned(bytes) => values(&bytes, |value| self.row.push(value.map_or(Value::Other, owned))),
        }
        .ok_or_else(cut)?;
        if let Some(value) = self.row_number.and_then(|column| self.row.get_mut(column)) {
            *value = Value::Int(row_number);
        }
        Ok(())
    }

    /// Returns a row that continues in overflow pages, from page `next` on.
    fn overflowing(&mut self, here: &[u8], mut next: u32, size: usize, offset: usize) -> Result<Vec<u8>> {
        let invalid = |what| Invalid { offset: offset as u64, what };
        let mut payload = here.to_vec();
        while payload.len() < size {
            let (page, _) = self.database.page(next)?;
            let (pointer, bytes) = page.split_first_chunk().ok_or(invalid("a cut row of an SQLite table"))?;
            payload.extend_from_slice(&bytes[..bytes.len().min(size - payload.len())]);
            next = u32::from_be_bytes(*pointer);
        }
        Ok(payload)
    }
}

/// A value as it is in a row.
enum Raw<'r> {
    Int(i64),
    Text(&'r [u8]),
}

fn borrowed(value: Raw<'_>) -> Value<'_> {
    match value {
        Raw::Int(number) => Value::Int(number),
        Raw::Text(text) => Value::Text(String::from_utf8_lossy(text)),
    }
}

fn owned<'b>(value: Raw<'_>) -> Value<'b> {
    match value {
        Raw::Int(number) => Value::Int(number),
        Raw::Text(text) => Value::Text(String::from_utf8_lossy(text).into_owned().into()),
    }
}

/// Calls `each` with the values of a row; `None` stands for one that is not read. Fails if the row is cut.
fn values<'r>(row: &'r [u8], mut each: impl FnMut(Option<Raw<'r>>)) -> Option<()> {
    let mut rest = row;
    let header = usize::try_from(varint(&mut rest)?).ok()?;
    let mut types = row.get(row.len() - rest.len()..header)?;
    let mut body = row.get(header..)?;
    while !types.is_empty() {
        let of = varint(&mut types)?;
        let length = match of {
            0 | 8 | 9 => 0,
            1..=4 => of,
            5 => 6,
            6 | 7 => 8,
            12.. => (of - 12) / 2,
            _ => return None,
        };
        let (bytes, after) = body.split_at_checked(usize::try_from(length).ok()?)?;
        body = after;
        each(match of {
            1..=6 => Some(Raw::Int(integer(bytes))),
            8 | 9 => Some(Raw::Int(i64::from(of == 9))),
            13.. if of % 2 == 1 => Some(Raw::Text(bytes)),
            _ => None,
        });
    }
    Some(())
}

/// A big-endian integer with its sign.
fn integer(bytes: &[u8]) -> i64 {
    let is_negative = bytes.first().is_some_and(|&first| first >= 0x80);
    let start = if is_negative { -1 } else { 0 };
    bytes.iter().fold(start, |number, &byte| number << 8 | i64::from(byte))
}

/// A number in seven bits a byte, most significant first. A ninth byte has eight.
fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for i in 0..9 {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        if i == 8 {
            return Some(number << 8 | u64::from(byte));
        }
        number = number << 7 | u64::from(byte & 0x7f);
        if byte < 0x80 {
            break;
        }
    }
    Some(number)
}

/// Returns the columns of a statement `CREATE TABLE name (column type .., ..)`, and the position of the one that is the row's number.
fn columns(sql: &str) -> (Vec<String>, Option<usize>) {
    let lines = sql.lines().map(|line| line.split_once("--").map_or(line, |(code, _)| code));
    let code = lines.collect::<Vec<_>>().join(" ");
    let inside = code.split_once('(').map_or("", |(_, inside)| inside);
    let (mut depth, mut parts) = (0usize, vec![String::new()]);
    for c in inside.chars() {
        match c {
            '(' => depth += 1,
            ')' if depth == 0 => break,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(part) = parts.last_mut() {
            part.push(c);
        }
    }
    let (mut names, mut row_number) = (Vec::new(), None);
    for part in parts {
        let words: Vec<String> = part.split_whitespace().map(str::to_ascii_lowercase).collect();
        let Some(name) = words.first() else { continue };
        if matches!(name.as_str(), "constraint" | "primary" | "unique" | "check" | "foreign") {
            continue;
        }
        let is_primary = words.iter().any(|word| word == "primary");
        if is_primary && words.get(1).is_some_and(|of| of == "integer") {
            row_number = Some(names.len());
        }
        names.push(name.trim_matches(['"', '`', '[', ']']).to_owned());
    }
    (names, row_number)
}

#[cfg(test)]
mod tests;
