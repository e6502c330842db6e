//! Decompression of LZ4 blocks, which fat binaries of CUDA up to 12.7 contain.

/// Decompresses a block to at most `most` bytes. `None` for invalid data.
pub(crate) fn decompress(mut input: &[u8], most: usize) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    while !input.is_empty() {
        let token = *input.split_off_first()?;
        let literals = length(token >> 4, &mut input)?;
        out.extend(input.split_off(..literals)?);
        // The last sequence has no match.
        if !input.is_empty() {
            let offset = u16::from_le_bytes([*input.split_off_first()?, *input.split_off_first()?]);
            let matched = length(token & 15, &mut input)? + 4;
            if matched > most {
                return None;
            }
            repeat(&mut out, offset.into(), matched)?;
        }
        if out.len() > most {
            return None;
        }
    }
    Some(out)
}

/// Appends `length` bytes that begin `offset` bytes before the end. Both ranges may overlap.
fn repeat(out: &mut Vec<u8>, offset: usize, length: usize) -> Option<()> {
    let from = out.len().checked_sub(offset).filter(|_| offset > 0)?;
    let end = out.len() + length;
    while out.len() < end {
        // Each part doubles the repeated bytes.
        out.extend_from_within(from..(out.len()).min(from + end - out.len()));
    }
    Some(())
}

/// A length of 15 or more continues in further bytes, up to one below 255.
fn length(first: u8, input: &mut &[u8]) -> Option<usize> {
    let mut length = usize::from(first);
    if first == 15 {
        loop {
            let byte = *input.split_off_first()?;
            length += usize::from(byte);
            if byte < 255 {
                break;
            }
        }
    }
    Some(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of these sequences: literals, and the offset and length of a match.
    fn packed(sequences: &[(&[u8], u16, usize)]) -> Vec<u8> {
        let mut out = Vec::new();
        let more = |length: usize, out: &mut Vec<u8>| {
            if let Some(rest) = length.checked_sub(15) {
                out.extend(std::iter::repeat_n(255, rest / 255));
                out.push((rest % 255) as u8);
            }
        };
        for &(literals, offset, matched) in sequences {
            let matched = matched.saturating_sub(4);
            out.push((literals.len().min(15) << 4 | matched.min(15)) as u8);
            more(literals.len(), &mut out);
            out.extend(literals);
            if offset > 0 {
                out.extend(offset.to_le_bytes());
                more(matched, &mut out);
            }
        }
        out
    }

    #[test]
    fn literals_and_matches_of_all_lengths() {
        let long: Vec<u8> = (0..700).map(|i| (i % 251) as u8).collect();
        let block = packed(&[(b"abc", 3, 4), (b"", 2, 600), (&long, 700, 19), (b"x", 1, 18), (b"end", 0, 0)]);
        let mut expected = b"abcabca".to_vec();
        expected.extend(b"ca".iter().cycle().take(600));
        expected.extend(&long);
        expected.extend(&long[..19]);
        expected.extend([b'x'; 19]);
        expected.extend(b"end");
        assert_eq!(decompress(&block, expected.len()), Some(expected.clone()));
        assert_eq!(decompress(&block, expected.len() - 1), None);
        for end in 1..block.len() {
            assert_ne!(decompress(&block[..end], expected.len()), Some(expected.clone()));
        }
    }

    #[test]
    fn a_match_before_the_beginning_is_refused() {
        assert_eq!(decompress(&packed(&[(b"abc", 4, 4), (b"", 0, 0)]), 100), None);
        assert_eq!(decompress(&packed(&[(b"abc", 0xffff, 4)]), 100), None);
    }
}
