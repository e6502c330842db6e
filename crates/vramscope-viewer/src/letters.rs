//! Encodes bytes as text within an HTML page. The alphabet is ASCII without the three characters that HTML would alter or
//! interpret (NUL, carriage return and `<`), so the document's encoding does not matter. A pair of these 125 letters encodes 13
//! bits, or 14 bits for as many values as there are spare pairs: 6.95 bits per letter. Base64 would be a seventh longer.
//!
//! `viewer/src/source/letters.ts` decodes it.

/// The size of the alphabet.
const LETTERS: u32 = 125;

/// A pair encodes 14 bits if its lower 13 bits are below this number: the number of pairs beyond 2^13.
const LONG: u32 = LETTERS * LETTERS - (1 << 13);

/// Encodes `bytes` as text.
pub(crate) fn text(bytes: &[u8]) -> String {
    let letters: Vec<char> = ('\0'..='\x7f').filter(|letter| !['\0', '\r', '<'].contains(letter)).collect();
    let mut text = String::with_capacity(bytes.len() / 6 * 7 + 4);
    let (mut bits, mut held) = (0u32, 0);
    let mut write = |pair: u32| {
        for letter in [pair % LETTERS, pair / LETTERS] {
            text.push(letters[letter as usize]);
        }
    };
    for &byte in bytes {
        bits |= u32::from(byte) << held;
        held += 8;
        if held >= 14 {
            let length = if bits & 0x1fff < LONG { 14 } else { 13 };
            write(bits & ((1 << length) - 1));
            bits >>= length;
            held -= length;
        }
    }
    // The remaining bits, fewer than a byte, padded with zeros. A single letter encodes six bits.
    if held > 6 {
        write(bits);
    } else if held > 0 {
        text.push(letters[bits as usize]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes like the page.
    fn bytes(text: &str) -> Vec<u8> {
        let number =
            |letter: u8| u32::from(letter) - 1 - u32::from(letter > b'\r') - u32::from(letter > b'<');
        let (mut bits, mut held, mut out) = (0u32, 0, Vec::new());
        for pair in text.as_bytes().chunks(2) {
            let (value, length) = match *pair {
                [low, high] => {
                    let value = number(low) + LETTERS * number(high);
                    (value, if value & 0x1fff < LONG { 14 } else { 13 })
                }
                _ => (number(pair[0]), 6),
            };
            bits |= value << held;
            held += length;
            while held >= 8 {
                out.push(bits as u8);
                bits >>= 8;
                held -= 8;
            }
        }
        out
    }

    #[test]
    fn all_bytes_come_back_and_nothing_of_html_is_written() {
        let all: Vec<u8> = (0..=255).chain((0..=255).rev()).chain([0; 9]).chain([0xff; 9]).collect();
        for length in 0..all.len() {
            let text = text(&all[..length]);
            assert!(text.is_ascii() && !text.contains(['\0', '\r', '<']));
            assert_eq!(bytes(&text), &all[..length]);
        }
        assert_eq!(text(b"vramscope").len(), 11);
    }
}
