//! Decompression of Zstandard frames (RFC 8878). Dictionaries are not supported.

use std::io::{self, BufRead, Read};

/// Longest block, in bytes.
const LONGEST_BLOCK: usize = 128 << 10;

/// Largest Huffman code, in bits.
const LONGEST_CODE: u32 = 11;

/// Largest window, in bytes, as in the C library: `zstd --long` and `--ultra -22` write no larger ones.
const LARGEST_WINDOW: u64 = 1 << 27;

/// Decompresses a stream of frames.
#[derive(Debug)]
pub struct Frames<R> {
    stream: R,
    /// The frame that has begun and is not completely decoded.
    frame: Option<Frame>,
    out: Out,
    /// Number of bytes of `out` that were taken.
    taken: usize,
    /// The compressed bytes of a block.
    block: Vec<u8>,
}

/// The state of a frame.
#[derive(Debug)]
struct Frame {
    window: usize,
    /// The size of the content, if the frame has it, and of the decoded part.
    size: Option<u64>,
    decoded: u64,
    checksum: Option<Checksum>,
    decoder: Decoder,
}

/// Decompresses whole frames to at most `most` bytes. `None` for invalid data.
pub fn decompress(input: &[u8], most: usize) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    Frames::new(input).take(most as u64 + 1).read_to_end(&mut out).ok()?;
    (out.len() <= most).then_some(out)
}

impl<R: BufRead> Frames<R> {
    /// Reads from `stream`.
    pub fn new(stream: R) -> Self {
        Self { stream, frame: None, out: Out::default(), taken: 0, block: Vec::new() }
    }

    /// The next bytes of the stream.
    fn bytes<const SIZE: usize>(&mut self) -> io::Result<[u8; SIZE]> {
        let mut bytes = [0; SIZE];
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// A number of `length` bytes.
    fn number(&mut self, length: usize) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.stream.read_exact(&mut bytes[..length])?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Reads the header of the next frame. `None` for a frame that is skipped.
    fn header(&mut self) -> io::Result<Option<Frame>> {
        match u32::from_le_bytes(self.bytes()?) {
            0xfd2f_b528 => {}
            0x184d_2a50..=0x184d_2a5f => {
                let length = self.number(4)?;
                let skipped = io::copy(&mut (&mut self.stream).take(length), &mut io::sink())?;
                return if skipped < length { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(None) };
            }
            _ => return Err(invalid("a frame has no signature")),
        }
        let [descriptor] = self.bytes()?;
        let is_single_segment = descriptor & 0x20 != 0;
        if descriptor & 0x08 != 0 {
            return Err(invalid("a frame has a reserved bit"));
        }
        let mut window = 0;
        if !is_single_segment {
            let exponent = self.number(1)?;
            window = (1 << 10 << (exponent >> 3)) / 8 * (8 + (exponent & 7));
        }
        let dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
        if self.number(dictionary)? != 0 {
            return Err(invalid("a frame needs a dictionary"));
        }
        let size = match descriptor >> 6 {
            0 if is_single_segment => Some(self.number(1)?),
            0 => None,
            1 => Some(self.number(2)? + 256),
            flag => Some(self.number(1 << flag)?),
        };
        if is_single_segment {
            window = size.unwrap_or(0);
        }
        if window > LARGEST_WINDOW {
            return Err(invalid("the window of a frame is larger than 128 MiB"));
        }
        let checksum = (descriptor & 4 != 0).then(Checksum::default);
        let decoder = Decoder::default();
        Ok(Some(Frame { window: window as usize, size, decoded: 0, checksum, decoder }))
    }

    /// Decodes the next block of a frame. Returns whether it was the last one.
    fn decode(&mut self, frame: &mut Frame) -> io::Result<bool> {
        let kept = frame.window + frame.window.max(SLACK);
        if self.out.end >= kept {
            self.out.keep(frame.window);
        }
        let begin = self.out.end;
        let header = self.number(3)?;
        let (kind, size) = (header >> 1 & 3, (header >> 3) as usize);
        let most = LONGEST_BLOCK.min(frame.window);
        if size > most {
            return Err(invalid("a block is too long"));
        }
        self.block.resize(if kind == 1 { 1 } else { size }, 0);
        self.stream.read_exact(&mut self.block)?;
        self.out.begin_block(most, kept);
        match kind {
            0 => self.out.bytes[begin..begin + size].copy_from_slice(&self.block),
            1 => self.out.bytes[begin..begin + size].fill(self.block[0]),
            2 => frame
                .decoder
                .block(&self.block, frame.window, &mut self.out)
                .ok_or_else(|| invalid("a block is invalid"))?,
            _ => return Err(invalid("a block has an unknown type")),
        }
        if kind < 2 {
            self.out.end += size;
        }
        self.taken = begin;
        let decoded = &self.out.bytes[begin..self.out.end];
        frame.decoded += decoded.len() as u64;
        if let Some(checksum) = &mut frame.checksum {
            checksum.add(decoded);
        }
        let is_last = header & 1 != 0;
        if is_last && frame.size.is_some_and(|size| size != frame.decoded) {
            return Err(invalid("a frame has another size than it says"));
        }
        if is_last
            && let Some(checksum) = &frame.checksum
            && self.bytes()? != checksum.bytes()
        {
            return Err(invalid("the checksum of a frame is wrong"));
        }
        Ok(is_last)
    }
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.taken == self.out.end && !out.is_empty() {
            match self.frame.take() {
                Some(mut frame) => {
                    if !self.decode(&mut frame)? {
                        self.frame = Some(frame);
                    }
                }
                None if self.stream.fill_buf()?.is_empty() => return Ok(0),
                None => {
                    self.out.end = 0;
                    self.taken = 0;
                    self.frame = self.header()?;
                }
            }
        }
        let n = out.len().min(self.out.end - self.taken);
        out[..n].copy_from_slice(&self.out.bytes[self.taken..self.taken + n]);
        self.taken += n;
        Ok(n)
    }
}

/// Decoded bytes: the window of the frame, and those that were not taken.
#[derive(Debug, Default)]
struct Out {
    /// More bytes than are decoded: short copies write whole chunks.
    bytes: Vec<u8>,
    /// Number of decoded bytes, and its limit in this block.
    end: usize,
    most: usize,
}

/// Bytes beyond the window before the older ones are dropped, at least.
const SLACK: usize = 16 << 20;

/// Size of a chunk in bytes.
const CHUNK: usize = 16;

impl Out {
    /// Makes room for a block of at most `most` bytes, of a frame of which at most `kept` bytes are kept before a block.
    fn begin_block(&mut self, most: usize, kept: usize) {
        self.most = self.end + most;
        let needed = self.most + CHUNK;
        if self.bytes.len() < needed {
            let (doubled, largest) = (2 * self.bytes.len(), kept + LONGEST_BLOCK + CHUNK);
            self.bytes.resize(doubled.min(largest).max(needed), 0);
        }
    }

    /// Drops all bytes but the last `window` ones.
    fn keep(&mut self, window: usize) {
        self.bytes.copy_within(self.end - window..self.end, 0);
        self.end = window;
    }

    /// Appends the first `length` of the bytes, of which a chunk more exists.
    #[inline]
    fn put(&mut self, bytes: &[u8], length: usize) -> Option<()> {
        let end = self.end + length;
        if end > self.most {
            return None;
        }
        if length <= CHUNK {
            *self.bytes[self.end..].first_chunk_mut::<CHUNK>()? = *bytes.first_chunk()?;
        } else {
            self.bytes[self.end..end].copy_from_slice(bytes.get(..length)?);
        }
        self.end = end;
        Some(())
    }

    /// Appends `length` bytes that begin `offset` bytes before the end. Both ranges may overlap.
    #[inline]
    fn repeat(&mut self, offset: usize, length: usize) -> Option<()> {
        let from = self.end.checked_sub(offset).filter(|_| offset > 0)?;
        let end = self.end + length;
        if end > self.most {
            return None;
        }
        if offset >= CHUNK && length <= 4 * CHUNK {
            for at in (0..length).step_by(CHUNK) {
                let chunk: [u8; CHUNK] = *self.bytes[from + at..].first_chunk()?;
                *self.bytes.get_mut(self.end + at..)?.first_chunk_mut()? = chunk;
            }
            self.end = end;
        }
        // Each part doubles the copied bytes, which repeat every `offset` bytes.
        while self.end < end {
            let part = (end - self.end).min(self.end - from);
            self.bytes.copy_within(from..from + part, self.end);
            self.end += part;
        }
        Some(())
    }
}

/// The checksum of a frame's content: the low half of XXH64.
#[derive(Debug)]
struct Checksum {
    lanes: [u64; 4],
    length: u64,
    /// The bytes of an incomplete stripe: the first `length % 32`.
    rest: [u8; 32],
}

const PRIMES: [u64; 5] = [
    0x9e37_79b1_85eb_ca87,
    0xc2b2_ae3d_27d4_eb4f,
    0x1656_67b1_9e37_79f9,
    0x85eb_ca77_c2b2_ae63,
    0x27d4_eb2f_1656_67c5,
];

impl Default for Checksum {
    fn default() -> Self {
        let lanes = [PRIMES[0].wrapping_add(PRIMES[1]), PRIMES[1], 0, 0_u64.wrapping_sub(PRIMES[0])];
        Self { lanes, length: 0, rest: [0; 32] }
    }
}

impl Checksum {
    fn round(lane: u64, word: u64) -> u64 {
        lane.wrapping_add(word.wrapping_mul(PRIMES[1])).rotate_left(31).wrapping_mul(PRIMES[0])
    }

    #[inline]
    fn stripe(lanes: [u64; 4], stripe: &[u8; 32]) -> [u64; 4] {
        let word = |i: usize| u64::from_le_bytes(std::array::from_fn(|byte| stripe[8 * i + byte]));
        std::array::from_fn(|i| Self::round(lanes[i], word(i)))
    }

    fn add(&mut self, mut bytes: &[u8]) {
        let used = (self.length % 32) as usize;
        self.length += bytes.len() as u64;
        if used > 0 {
            let (first, rest) = bytes.split_at(bytes.len().min(32 - used));
            self.rest[used..used + first.len()].copy_from_slice(first);
            bytes = rest;
            if used + first.len() < 32 {
                return;
            }
            let whole = self.rest;
            self.lanes = Self::stripe(self.lanes, &whole);
        }
        let (stripes, rest) = bytes.as_chunks();
        let mut lanes = self.lanes;
        for stripe in stripes {
            lanes = Self::stripe(lanes, stripe);
        }
        self.lanes = lanes;
        self.rest[..rest.len()].copy_from_slice(rest);
    }

    fn bytes(&self) -> [u8; 4] {
        let mut hash = PRIMES[4];
        if self.length >= 32 {
            let [a, b, c, d] = self.lanes;
            hash = a.rotate_left(1).wrapping_add(b.rotate_left(7));
            hash = hash.wrapping_add(c.rotate_left(12)).wrapping_add(d.rotate_left(18));
            for lane in self.lanes {
                hash = (hash ^ Self::round(0, lane)).wrapping_mul(PRIMES[0]).wrapping_add(PRIMES[3]);
            }
        }
        hash = hash.wrapping_add(self.length);
        let (words, rest) = self.rest[..(self.length % 32) as usize].as_chunks();
        for word in words {
            hash ^= Self::round(0, u64::from_le_bytes(*word));
            hash = hash.rotate_left(27).wrapping_mul(PRIMES[0]).wrapping_add(PRIMES[3]);
        }
        let (half, rest) = rest.as_chunks();
        for half in half {
            hash ^= u64::from(u32::from_le_bytes(*half)).wrapping_mul(PRIMES[0]);
            hash = hash.rotate_left(23).wrapping_mul(PRIMES[1]).wrapping_add(PRIMES[2]);
        }
        for &byte in rest {
            hash = (hash ^ u64::from(byte).wrapping_mul(PRIMES[4])).rotate_left(11).wrapping_mul(PRIMES[0]);
        }
        hash = (hash ^ hash >> 33).wrapping_mul(PRIMES[1]);
        hash = (hash ^ hash >> 29).wrapping_mul(PRIMES[2]);
        ((hash ^ hash >> 32) as u32).to_le_bytes()
    }
}

/// The state that blocks of a frame share.
#[derive(Debug)]
struct Decoder {
    huffman: Option<Huffman>,
    /// Tables of literal lengths, offsets and match lengths.
    tables: [Option<Table>; 3],
    /// The last three offsets.
    offsets: [usize; 3],
    literals: Vec<u8>,
}

impl Default for Decoder {
    fn default() -> Self {
        Self { huffman: None, tables: [None, None, None], offsets: [1, 4, 8], literals: Vec::new() }
    }
}

impl Decoder {
    /// Appends a block's content. Matches begin at most `window` bytes before their copy.
    fn block(&mut self, block: &[u8], window: usize, out: &mut Out) -> Option<()> {
        let sequences = self.read_literals(block)?;
        self.execute(sequences, window, out)
    }

    /// Reads the literals of a block. Returns the section of its sequences.
    fn read_literals<'b>(&mut self, block: &'b [u8]) -> Option<&'b [u8]> {
        let first = *block.first()?;
        let (kind, format) = (first & 3, first >> 2 & 3);
        let header = |bytes: usize| -> Option<u64> {
            Some(block.get(..bytes)?.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
        };
        self.literals.clear();
        if kind < 2 {
            let (length, shift) = match format {
                0 | 2 => (1, 3),
                1 => (2, 4),
                _ => (3, 4),
            };
            let size = (header(length)? >> shift) as usize;
            let rest = &block[length..];
            if size > LONGEST_BLOCK {
                return None;
            }
            if kind == 0 {
                self.literals.extend(rest.get(..size)?);
                return rest.get(size..);
            }
            self.literals.resize(size, *rest.first()?);
            return rest.get(1..);
        }
        let (length, bits) = match format {
            0 | 1 => (3, 10),
            2 => (4, 14),
            _ => (5, 18),
        };
        let sizes = header(length)? >> 4;
        let mask = (1 << bits) - 1;
        let (size, compressed) = ((sizes & mask) as usize, (sizes >> bits & mask) as usize);
        let (mut streams, rest) = block[length..].split_at_checked(compressed)?;
        if size > LONGEST_BLOCK {
            return None;
        }
        if kind == 2 {
            let (huffman, after) = Huffman::read(streams)?;
            self.huffman = Some(huffman);
            streams = after;
        }
        let huffman = self.huffman.as_ref()?;
        if format == 0 {
            huffman.decode(streams, size, &mut self.literals)?;
            return Some(rest);
        }
        let (jumps, mut streams) = streams.split_first_chunk::<6>()?;
        let part = size.div_ceil(4);
        for i in 0..3 {
            let length = usize::from(u16::from_le_bytes([jumps[2 * i], jumps[2 * i + 1]]));
            let (stream, after) = streams.split_at_checked(length)?;
            huffman.decode(stream, part, &mut self.literals)?;
            streams = after;
        }
        huffman.decode(streams, size.checked_sub(3 * part)?, &mut self.literals)?;
        Some(rest)
    }

    /// Executes the sequences of a block: literals, followed by a copy of earlier bytes.
    fn execute(&mut self, section: &[u8], window: usize, out: &mut Out) -> Option<()> {
        let (&first, mut rest) = section.split_first()?;
        let mut count = usize::from(first);
        if first == 255 {
            let (bytes, after) = rest.split_first_chunk::<2>()?;
            (count, rest) = (usize::from(u16::from_le_bytes(*bytes)) + 0x7f00, after);
        } else if first >= 128 {
            let (&low, after) = rest.split_first()?;
            (count, rest) = ((count - 128) << 8 | usize::from(low), after);
        }
        let mut left = self.literals.len();
        self.literals.resize(left + CHUNK, 0);
        let mut literals = &self.literals[..];
        if count > 0 {
            let (&modes, mut rest) = rest.split_first()?;
            for (i, kind) in [LITERAL_LENGTHS, OFFSETS, MATCH_LENGTHS].into_iter().enumerate() {
                let table = &mut self.tables[i];
                match modes >> (6 - 2 * i) & 3 {
                    0 => *table = Some(Table::new(kind.default, kind.default_log)?),
                    1 => {
                        let (&symbol, after) = rest.split_first()?;
                        (*table, rest) = (Some(Table::of_one(symbol)), after);
                    }
                    2 => {
                        let (read, after) = Table::read(rest, kind.most_log, kind.symbols)?;
                        (*table, rest) = (Some(read), after);
                    }
                    _ => {}
                }
            }
            let [Some(of_literals), Some(of_offsets), Some(of_matches)] = &self.tables else { return None };
            let mut bits = Bits::new(rest)?;
            let mut literal_state = bits.read(of_literals.log) as usize;
            let mut offset_state = bits.read(of_offsets.log) as usize;
            let mut match_state = bits.read(of_matches.log) as usize;
            for i in 0..count {
                let of_literal = *of_literals.cells.get(literal_state)?;
                let of_offset = *of_offsets.cells.get(offset_state)?;
                let of_match = *of_matches.cells.get(match_state)?;
                // Larger than any window.
                if of_offset.symbol > 30 {
                    return None;
                }
                let offset = (1 << of_offset.symbol) + bits.read(of_offset.symbol.into()) as usize;
                let &(base, more) = MATCH_BASES.get(usize::from(of_match.symbol))?;
                let length = base as usize + bits.read(more) as usize;
                let &(base, more) = LITERAL_BASES.get(usize::from(of_literal.symbol))?;
                let literal = base as usize + bits.read(more) as usize;
                if i + 1 < count {
                    literal_state = of_literal.next(&mut bits);
                    match_state = of_match.next(&mut bits);
                    offset_state = of_offset.next(&mut bits);
                }
                if bits.is_beyond() {
                    return None;
                }
                let offset = repeated(&mut self.offsets, offset, literal)?;
                left = left.checked_sub(literal)?;
                out.put(literals, literal)?;
                literals = &literals[literal..];
                if offset > window {
                    return None;
                }
                out.repeat(offset, length)?;
            }
        }
        out.put(literals, left)
    }
}

/// The offset of a sequence, whose code may refer to one of the last three offsets.
fn repeated(offsets: &mut [usize; 3], code: usize, literals: usize) -> Option<usize> {
    if code > 3 {
        *offsets = [code - 3, offsets[0], offsets[1]];
        return Some(offsets[0]);
    }
    let which = code.checked_sub(1)? + usize::from(literals == 0);
    let offset = match which {
        3 => offsets[0].checked_sub(1).filter(|&offset| offset > 0)?,
        _ => offsets[which],
    };
    match which {
        0 => {}
        1 => offsets.swap(0, 1),
        _ => *offsets = [offset, offsets[0], offsets[1]],
    }
    Some(offset)
}

/// A stream of bits that is read from its end.
struct Bits<'b> {
    bytes: &'b [u8],
    /// Number of unread bits; negative after more bits were read than exist. Missing bits are zero.
    left: isize,
}

impl<'b> Bits<'b> {
    /// The last set bit of the last byte marks the end.
    fn new(bytes: &'b [u8]) -> Option<Self> {
        let mark = bytes.last()?.checked_ilog2()?;
        Some(Self { bytes, left: (8 * (bytes.len() - 1)) as isize + mark as isize })
    }

    /// Reads at most 32 bits.
    #[inline]
    fn read(&mut self, count: u32) -> u64 {
        let bits = self.peek(count);
        self.left -= count as isize;
        bits
    }

    #[inline]
    fn peek(&self, count: u32) -> u64 {
        let mask = (1 << count) - 1;
        let at = self.left - count as isize;
        if at < 0 {
            // The missing low bits are zero.
            let word = self.bytes.iter().take(8).rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
            return word << at.unsigned_abs().min(63) & mask;
        }
        let (byte, shift) = (at as usize / 8, at as usize % 8);
        let word = match self.bytes.get(byte..).and_then(<[u8]>::first_chunk) {
            Some(&word) => u64::from_le_bytes(word),
            None => self.bytes[byte..].iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)),
        };
        word >> shift & mask
    }

    fn is_beyond(&self) -> bool {
        self.left < 0
    }
}

/// An entry of a [`Table`].
#[derive(Debug, Clone, Copy, Default)]
struct Cell {
    symbol: u8,
    /// Number of bits that follow, and the state to which they are added.
    bits: u8,
    base: u16,
}

impl Cell {
    fn next(self, bits: &mut Bits<'_>) -> usize {
        usize::from(self.base) + bits.read(self.bits.into()) as usize
    }
}

/// A table of finite state entropy.
#[derive(Debug)]
struct Table {
    log: u32,
    cells: Vec<Cell>,
}

impl Table {
    fn of_one(symbol: u8) -> Self {
        Self { log: 0, cells: vec![Cell { symbol, bits: 0, base: 0 }] }
    }

    /// Reads a table's probabilities. Returns the rest of the input.
    fn read(input: &[u8], most_log: u32, symbols: usize) -> Option<(Self, &[u8])> {
        let peek = |at: usize| -> u32 {
            let bytes = input.get(at / 8..).unwrap_or_default();
            bytes.iter().take(4).rev().fold(0, |word, &byte| word << 8 | u32::from(byte)) >> (at % 8)
        };
        let log = (peek(0) & 15) + 5;
        if log > most_log {
            return None;
        }
        let (mut at, mut width) = (4, log + 1);
        let (mut remaining, mut threshold) = ((1_i32 << log) + 1, 1_i32 << log);
        let mut probabilities: Vec<i16> = Vec::new();
        while remaining > 1 {
            let most = 2 * threshold - 1 - remaining;
            let value = peek(at) as i32;
            let mut count = value & (threshold - 1);
            if count < most {
                at += width as usize - 1;
            } else {
                count = value & (2 * threshold - 1);
                if count >= threshold {
                    count -= most;
                }
                at += width as usize;
            }
            let probability = count - 1;
            remaining -= probability.abs();
            probabilities.push(probability as i16);
            if probability == 0 {
                loop {
                    let zeros = peek(at) & 3;
                    at += 2;
                    probabilities.extend(std::iter::repeat_n(0, zeros as usize));
                    if zeros != 3 || at / 8 > input.len() {
                        break;
                    }
                }
            }
            if remaining < 1 || probabilities.len() > symbols {
                return None;
            }
            while remaining < threshold {
                (width, threshold) = (width - 1, threshold / 2);
            }
        }
        Some((Self::new(&probabilities, log)?, input.get(at.div_ceil(8)..)?))
    }

    /// The table of these probabilities, whose sum is `1 << log`. A probability of -1 is less than 1.
    fn new(probabilities: &[i16], log: u32) -> Option<Self> {
        let size = 1_usize << log;
        let mut cells = vec![Cell::default(); size];
        let mut next = Vec::with_capacity(probabilities.len());
        let mut high = size;
        for (symbol, &probability) in probabilities.iter().enumerate() {
            next.push(probability.unsigned_abs());
            if probability < 0 {
                high = high.checked_sub(1)?;
                cells[high].symbol = symbol as u8;
            }
        }
        let (step, mask) = ((size >> 1) + (size >> 3) + 3, size - 1);
        let mut at = 0;
        for (symbol, &probability) in probabilities.iter().enumerate() {
            for _ in 0..probability.max(0) {
                cells[at].symbol = symbol as u8;
                at = (at + step) & mask;
                while at >= high && high > 0 {
                    at = (at + step) & mask;
                }
            }
        }
        for cell in &mut cells {
            let next = next.get_mut(usize::from(cell.symbol))?;
            cell.bits = (log - next.checked_ilog2()?) as u8;
            cell.base = ((usize::from(*next) << cell.bits).checked_sub(size)?).try_into().ok()?;
            *next += 1;
        }
        Some(Self { log, cells })
    }
}

/// A table of Huffman codes: for each value of the next `log` bits, the symbol and the length of its code.
#[derive(Debug)]
struct Huffman {
    log: u32,
    cells: Vec<(u8, u8)>,
}

impl Huffman {
    /// Reads a table. Returns the rest of the input.
    fn read(input: &[u8]) -> Option<(Self, &[u8])> {
        let (&header, rest) = input.split_first()?;
        let mut weights = Vec::with_capacity(256);
        let rest = if header >= 128 {
            let count = usize::from(header) - 127;
            let (packed, rest) = rest.split_at_checked(count.div_ceil(2))?;
            weights.extend(packed.iter().flat_map(|byte| [byte >> 4, byte & 15]).take(count));
            rest
        } else {
            let (compressed, rest) = rest.split_at_checked(header.into())?;
            let (table, stream) = Table::read(compressed, 6, 16)?;
            let mut bits = Bits::new(stream)?;
            let mut states = [bits.read(table.log) as usize, bits.read(table.log) as usize];
            if bits.is_beyond() {
                return None;
            }
            // The states take turns, until one has no bits for its next one.
            for turn in (0..2).cycle() {
                let cell = table.cells.get(states[turn])?;
                weights.push(cell.symbol);
                states[turn] = cell.next(&mut bits);
                if bits.is_beyond() {
                    weights.push(table.cells.get(states[1 - turn])?.symbol);
                    break;
                }
                if weights.len() > 254 {
                    return None;
                }
            }
            rest
        };
        Some((Self::new(&weights)?, rest))
    }

    /// The codes of these weights. The weight of the last symbol follows from the others.
    fn new(weights: &[u8]) -> Option<Self> {
        let mut weights = weights.to_vec();
        if weights.iter().any(|&weight| u32::from(weight) > LONGEST_CODE) {
            return None;
        }
        let sum: usize = weights.iter().filter(|&&weight| weight > 0).map(|&weight| 1 << (weight - 1)).sum();
        let log = sum.checked_ilog2()? + 1;
        let last = (1_usize << log) - sum;
        if log > LONGEST_CODE || !last.is_power_of_two() {
            return None;
        }
        weights.push(last.ilog2() as u8 + 1);
        let mut cells = Vec::with_capacity(1 << log);
        for weight in 1..=log as u8 + 1 {
            let of_weight = weights.iter().enumerate().filter(|&(_, &of)| of == weight);
            for (symbol, _) in of_weight {
                let bits = (log + 1 - u32::from(weight)) as u8;
                cells.extend(std::iter::repeat_n((u8::try_from(symbol).ok()?, bits), 1 << (weight - 1)));
            }
        }
        (cells.len() == 1 << log).then_some(Self { log, cells })
    }

    /// Appends `count` symbols.
    fn decode(&self, stream: &[u8], count: usize, out: &mut Vec<u8>) -> Option<()> {
        let mut bits = Bits::new(stream)?;
        let mut left = count;
        // Most symbols are read five at a time.
        while left >= 5 && bits.left >= 64 {
            let word = bits.peek(5 * LONGEST_CODE);
            let mut used = 0;
            for _ in 0..5 {
                let at = word >> (5 * LONGEST_CODE - used - self.log) & ((1 << self.log) - 1);
                let &(symbol, length) = self.cells.get(at as usize)?;
                used += u32::from(length);
                out.push(symbol);
            }
            (bits.left, left) = (bits.left - used as isize, left - 5);
        }
        for _ in 0..left {
            let &(symbol, length) = self.cells.get(bits.peek(self.log) as usize)?;
            bits.left -= isize::from(length);
            out.push(symbol);
        }
        (bits.left == 0).then_some(())
    }
}

/// The symbols of a table of sequences.
#[derive(Clone, Copy)]
struct Symbols {
    most_log: u32,
    symbols: usize,
    default_log: u32,
    default: &'static [i16],
}

const LITERAL_LENGTHS: Symbols = Symbols {
    most_log: 9,
    symbols: 36,
    default_log: 6,
    default: &[
        4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1, 1, 1, 1, -1,
        -1, -1, -1,
    ],
};
const OFFSETS: Symbols = Symbols {
    most_log: 8,
    symbols: 32,
    default_log: 5,
    default: &[1, 1, 1, 1, 1, 1, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1],
};
const MATCH_LENGTHS: Symbols = Symbols {
    most_log: 9,
    symbols: 53,
    default_log: 6,
    default: &[
        1, 4, 3, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
        1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1,
    ],
};

/// For each symbol of a literal length, its smallest length and the number of bits that follow.
const LITERAL_BASES: [(u32, u32); 36] = bases(
    0,
    [
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 3, 3, 4, 6, 7, 8, 9, 10, 11, 12,
        13, 14, 15, 16,
    ],
);

/// For each symbol of a match length, its smallest length and the number of bits that follow.
const MATCH_BASES: [(u32, u32); 53] = bases(
    3,
    [
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1,
        1, 1, 2, 2, 3, 3, 4, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,
    ],
);

/// The smallest length of each symbol follows from the bits of those before it.
const fn bases<const COUNT: usize>(mut smallest: u32, bits: [u32; COUNT]) -> [(u32, u32); COUNT] {
    let mut bases = [(0, 0); COUNT];
    let mut i = 0;
    while i < COUNT {
        bases[i] = (smallest, bits[i]);
        smallest += 1 << bits[i];
        i += 1;
    }
    bases
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// Bytes with repeated parts, which look like machine code: deterministic, and different for each seed.
    fn bytes(seed: u64, length: usize) -> Vec<u8> {
        let mut state = seed | 1;
        let mut random = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize
        };
        let mut out = Vec::new();
        while out.len() < length {
            match random() % 4 {
                0 => out.extend((0..random() % 40).map(|_| (random() % 256) as u8)),
                1 => out.extend(std::iter::repeat_n(random() as u8, random() % 3000)),
                2 => out.extend((0..random() % 200).map(|_| b'a' + (random() % 7) as u8)),
                _ if !out.is_empty() => {
                    let from = random() % out.len();
                    let part = out[from..(from + random() % 500).min(out.len())].to_vec();
                    out.extend(part);
                }
                _ => {}
            }
        }
        out.truncate(length);
        out
    }

    #[test]
    fn frames_of_the_reference_library_are_read() {
        for (seed, length) in [(1, 0), (2, 1), (3, 50), (4, 1000), (5, 40_000), (6, 300_000), (7, 2_000_000)]
        {
            for level in [-5, 1, 3, 9, 19] {
                let bytes = bytes(seed, length);
                let packed = zstd::bulk::compress(&bytes, level).unwrap();
                assert!(decompress(&packed, length) == Some(bytes), "{length} bytes at level {level}");
            }
        }
        // Several frames, streamed: without a size, with a checksum, and with short blocks.
        let mut both = Vec::new();
        for seed in [8, 9] {
            let mut encoder = zstd::Encoder::new(&mut both, 6).unwrap();
            encoder.include_checksum(true).unwrap();
            for part in bytes(seed, 100_000).chunks(7000) {
                std::io::Write::write_all(&mut encoder, part).unwrap();
                std::io::Write::flush(&mut encoder).unwrap();
            }
            encoder.finish().unwrap();
        }
        assert!(decompress(&both, 200_000) == Some([bytes(8, 100_000), bytes(9, 100_000)].concat()));
    }

    #[test]
    fn invalid_data_ends() {
        let packed = zstd::bulk::compress(&bytes(11, 5000), 9).unwrap();
        assert_eq!(decompress(&packed, 4999), None);
        for end in 0..packed.len() {
            assert_eq!(decompress(&packed[..end], 5000).filter(|_| end > 0), None, "{end}");
        }
        for at in 0..packed.len() {
            for bit in 0..8 {
                let mut changed = packed.clone();
                changed[at] ^= 1 << bit;
                if let Some(out) = decompress(&changed, 5000) {
                    assert!(out.len() <= 5000);
                }
            }
        }
    }

    fn unpacked(bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        Frames::new(bytes).read_to_end(&mut out)?;
        Ok(out)
    }

    fn packed_at(level: i32, bytes: &[u8]) -> Vec<u8> {
        let mut encoder = zstd::Encoder::new(Vec::new(), level).unwrap();
        encoder.include_checksum(true).unwrap();
        io::Write::write_all(&mut encoder, bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn packed(bytes: &[u8]) -> Vec<u8> {
        packed_at(3, bytes)
    }

    /// Returns the bytes that are neither random nor constant.
    fn some(length: usize) -> Vec<u8> {
        (0..length).map(|i| (i * i / 7 % 251) as u8).collect()
    }

    #[test]
    fn frames_follow_each_other_and_some_are_skipped() {
        let (first, second) = (some(1_000_000), some(300));
        let skipped = [&0x184d_2a53_u32.to_le_bytes()[..], &5_u32.to_le_bytes(), b"notes"].concat();
        let all = [&packed(&first)[..], &skipped, &packed(b""), &packed(&second)].concat();
        assert_eq!(unpacked(&all).unwrap(), [first, second].concat());
        assert_eq!(unpacked(b"").unwrap(), b"");
    }

    #[test]
    fn windows_of_all_levels_of_zstd_are_read() {
        let packed = |log: u32| {
            let mut encoder = zstd::Encoder::new(Vec::new(), 3).unwrap();
            encoder.window_log(log).unwrap();
            encoder.long_distance_matching(true).unwrap();
            io::Write::write_all(&mut encoder, &some(3_000_000)).unwrap();
            encoder.finish().unwrap()
        };
        assert_eq!(unpacked(&packed(27)).unwrap(), some(3_000_000));
        unpacked(&packed(28)).unwrap_err();
    }

    proptest! {
        /// The C library is the reference: this decoder accepts valid and modified data only if the C library accepts it, with the same
        /// result.
        #[test]
        fn the_library_of_c_reads_the_same(
            seed in any::<[u8; 32]>(),
            length in 0..50_000usize,
            level in 1..20i32,
            changes in vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        ) {
            let bytes: Vec<u8> = (0..length).map(|i| seed[i * i / 7 % 32] ^ (i / 999) as u8).collect();
            let mut packed = packed_at(level, &bytes);
            prop_assert_eq!(unpacked(&packed).unwrap(), bytes);
            for (at, with) in changes {
                let at = at.index(packed.len());
                packed[at] ^= with;
            }
            if let Ok(ours) = unpacked(&packed) {
                prop_assert!(ours == zstd::decode_all(&packed[..]).unwrap());
            }
        }
    }

    #[test]
    fn cut_and_changed_frames_are_errors() {
        let whole = packed(&some(100_000));
        for length in (1..whole.len()).step_by(997) {
            unpacked(&whole[..length]).unwrap_err();
        }
        for at in (0..whole.len()).step_by(991) {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            assert!(unpacked(&changed).is_err_and(|e| !e.to_string().is_empty()), "byte {at}");
        }
    }
}
