//! Bytes as text that stands in a page: the characters of ASCII without the three that HTML would change or read as its own (NUL,
//! carriage return and `<`), so that no encoding of the document around it changes them. Two of these 125 letters say 13 bits, or
//! 14 where there are pairs enough: 6.95 bits a letter. Base64 would be a seventh longer.
//!
//! `viewer/src/source/letters.ts` reads it.

/// How many letters there are.
const LETTERS: u32 = 125;

/// A pair says 14 bits where the lower 13 of them are below this, which are as many as there are pairs beyond 2^13.
const LONG: u32 = LETTERS * LETTERS - (1 << 13);

/// `bytes` as text.
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
    // The last bits, and zeros above them, fewer than a byte: a letter alone says six bits.
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

    /// As the page reads it.
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
