//! Bytes as text that stands in a page: seven bits a character, all of ASCII, so that no encoding of the document around it changes
//! them. The three that HTML would change or read as its own (NUL, carriage return and `<`), and the one that says that such a one
//! follows, take two characters. Base64 would be a seventh longer.
//!
//! `viewer/src/source/seven.ts` reads it.

/// Stands in front of a character that may not stand in a page, which is then written with one bit changed.
const ESCAPE: u8 = 0x7f;
const CHANGED: u8 = 0x40;

/// `bytes` as text.
pub(crate) fn text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() + bytes.len() / 5 + 1);
    let (mut bits, mut held) = (0u32, 0);
    let mut write = |bits: u32| {
        let character = bits as u8;
        if matches!(character, 0 | b'\r' | b'<' | ESCAPE) {
            text.extend([char::from(ESCAPE), char::from(character ^ CHANGED)]);
        } else {
            text.push(char::from(character));
        }
    };
    for &byte in bytes {
        bits = (bits << 8 | u32::from(byte)) & 0x7fff;
        held += 8;
        while held >= 7 {
            held -= 7;
            write(bits >> held & 0x7f);
        }
    }
    // The last bits, and as many of nothing as make them seven.
    if held > 0 {
        write(bits << (7 - held) & 0x7f);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the page reads it.
    fn bytes(text: &str) -> Vec<u8> {
        let (mut bits, mut held, mut out) = (0u32, 0, Vec::new());
        let mut characters = text.bytes();
        while let Some(character) = characters.next() {
            let character =
                if character == ESCAPE { characters.next().unwrap() ^ CHANGED } else { character };
            bits = ((bits << 7) | u32::from(character)) & 0x7fff;
            held += 7;
            if held >= 8 {
                held -= 8;
                out.push((bits >> held) as u8);
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
