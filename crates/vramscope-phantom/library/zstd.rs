//! Decompression of Zstandard frames (RFC 8878), which fat binaries of CUDA 12.8 and later contain. Dictionaries are not supported, and
//! checksums are not verified.

/// Longest block, in bytes.
const LONGEST_BLOCK: usize = 128 << 10;

/// Largest Huffman code, in bits.
const LONGEST_CODE: u32 = 11;

/// Decompresses whole frames to at most `most` bytes. `None` for invalid data.
pub(crate) fn decompress(mut input: &[u8], most: usize) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    while !input.is_empty() {
        input = frame(input, most, &mut out)?;
    }
    Some(out)
}

/// Decompresses one frame, and returns the rest of the input.
fn frame<'i>(input: &'i [u8], most: usize, out: &mut Vec<u8>) -> Option<&'i [u8]> {
    const MAGIC: [u8; 4] = 0xfd2f_b528_u32.to_le_bytes();
    let (&descriptor, mut input) = input.strip_prefix(&MAGIC)?.split_first()?;
    let is_single_segment = descriptor & 0x20 != 0;
    let has_checksum = descriptor & 4 != 0;
    if descriptor & 3 != 0 {
        return None;
    }
    let size_bytes = match descriptor >> 6 {
        0 => usize::from(is_single_segment),
        flag => 1 << flag,
    };
    input = input.get(usize::from(!is_single_segment) + size_bytes..)?;
    let begin = out.len();
    let mut decoder = Decoder::default();
    loop {
        let (header, rest) = input.split_first_chunk::<3>()?;
        let header = u32::from_le_bytes([header[0], header[1], header[2], 0]);
        let size = (header >> 3) as usize;
        let is_last = header & 1 != 0;
        let kind = header >> 1 & 3;
        let (block, rest) = rest.split_at_checked(if kind == 1 { 1 } else { size })?;
        match kind {
            0 => out.extend(block),
            1 if size <= LONGEST_BLOCK => out.resize(out.len() + size, block[0]),
            2 => decoder.block(block, begin, most, out)?,
            _ => return None,
        }
        if out.len() > most {
            return None;
        }
        input = rest;
        if is_last {
            return input.get(if has_checksum { 4 } else { 0 }..);
        }
    }
}

/// The state that blocks of a frame share.
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
    fn block(&mut self, block: &[u8], begin: usize, most: usize, out: &mut Vec<u8>) -> Option<()> {
        let sequences = self.read_literals(block)?;
        self.execute(sequences, begin, most, out)
    }

    /// Reads the literals of a block. Returns the section of its sequences.
    fn read_literals<'b>(&mut self, block: &'b [u8]) -> Option<&'b [u8]> {
        let first = *block.first()?;
        let (kind, format) = (first & 3, first >> 2 & 3);
        let header = |bytes: usize| -> Option<usize> {
            Some(block.get(..bytes)?.iter().rev().fold(0, |number, &byte| number << 8 | usize::from(byte)))
        };
        self.literals.clear();
        if kind < 2 {
            let (length, shift) = match format {
                0 | 2 => (1, 3),
                1 => (2, 4),
                _ => (3, 4),
            };
            let size = header(length)? >> shift;
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
        let (size, compressed) = (sizes & mask, sizes >> bits & mask);
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
    fn execute(&mut self, section: &[u8], begin: usize, most: usize, out: &mut Vec<u8>) -> Option<()> {
        let (&first, mut rest) = section.split_first()?;
        let mut count = usize::from(first);
        if first == 255 {
            let (bytes, after) = rest.split_first_chunk::<2>()?;
            (count, rest) = (usize::from(u16::from_le_bytes(*bytes)) + 0x7f00, after);
        } else if first >= 128 {
            let (&low, after) = rest.split_first()?;
            (count, rest) = ((count - 128) << 8 | usize::from(low), after);
        }
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
                if of_offset.symbol > 31 {
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
                let (now, later) = literals.split_at_checked(literal)?;
                out.extend(now);
                literals = later;
                copy(out, begin, offset, length)?;
                if out.len() > most {
                    return None;
                }
            }
        }
        out.extend(literals);
        Some(())
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

/// Appends `length` bytes that begin `offset` bytes before the end. Both ranges may overlap.
pub(crate) fn copy(out: &mut Vec<u8>, begin: usize, offset: usize, length: usize) -> Option<()> {
    let mut from = out.len().checked_sub(offset).filter(|&from| from >= begin && offset > 0)?;
    let mut left = length;
    while left > 0 {
        let part = left.min(out.len() - from);
        out.extend_from_within(from..from + part);
        (from, left) = (from + part, left - part);
    }
    Some(())
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
    fn read(&mut self, count: u32) -> u64 {
        let bits = self.peek(count);
        self.left -= count as isize;
        bits
    }

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
        for _ in 0..count {
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
const LITERAL_BASES: [(u32, u32); 36] = [
    (0, 0),
    (1, 0),
    (2, 0),
    (3, 0),
    (4, 0),
    (5, 0),
    (6, 0),
    (7, 0),
    (8, 0),
    (9, 0),
    (10, 0),
    (11, 0),
    (12, 0),
    (13, 0),
    (14, 0),
    (15, 0),
    (16, 1),
    (18, 1),
    (20, 1),
    (22, 1),
    (24, 2),
    (28, 2),
    (32, 3),
    (40, 3),
    (48, 4),
    (64, 6),
    (128, 7),
    (256, 8),
    (512, 9),
    (1024, 10),
    (2048, 11),
    (4096, 12),
    (8192, 13),
    (16384, 14),
    (32768, 15),
    (65536, 16),
];

/// For each symbol of a match length, its smallest length and the number of bits that follow.
const MATCH_BASES: [(u32, u32); 53] = [
    (3, 0),
    (4, 0),
    (5, 0),
    (6, 0),
    (7, 0),
    (8, 0),
    (9, 0),
    (10, 0),
    (11, 0),
    (12, 0),
    (13, 0),
    (14, 0),
    (15, 0),
    (16, 0),
    (17, 0),
    (18, 0),
    (19, 0),
    (20, 0),
    (21, 0),
    (22, 0),
    (23, 0),
    (24, 0),
    (25, 0),
    (26, 0),
    (27, 0),
    (28, 0),
    (29, 0),
    (30, 0),
    (31, 0),
    (32, 0),
    (33, 0),
    (34, 0),
    (35, 1),
    (37, 1),
    (39, 1),
    (41, 1),
    (43, 2),
    (47, 2),
    (51, 3),
    (59, 3),
    (67, 4),
    (83, 4),
    (99, 5),
    (131, 7),
    (259, 8),
    (515, 9),
    (1027, 10),
    (2051, 11),
    (4099, 12),
    (8195, 13),
    (16387, 14),
    (32771, 15),
    (65539, 16),
];

#[cfg(test)]
mod tests {
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
}
