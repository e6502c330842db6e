//! Finds the errors of a text in one pass. Memory is bounded by the number of ranks, not by the text.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead, Read};

use crate::error::{Found, TextError};
use crate::lines::Line;
use crate::wordings::{follows, is_anchor, parse};

/// The most errors that are read one by one; further ones are counted.
pub const MOST_ERRORS: usize = 1000;

/// The longest line that is read whole, in bytes.
const LONGEST_LINE: u64 = 1 << 20;

/// A message is complete after this many lines, or characters without whitespace.
const MOST_LINES: usize = 14;
const MOST_CHARACTERS: usize = 4000;

/// Messages about one error are at most this many lines apart.
const NEAR: u64 = 400;

/// Ranks whose messages are read at the same time.
const MOST_OPEN: usize = 4096;

/// The beginning of a message of one rank.
struct Open {
    line: u64,
    lines: usize,
    /// The line before, which may have the beginning of the message.
    text: String,
}

/// Reads the errors of a text.
///
/// # Errors
/// Fails if reading fails.
pub fn read(mut text: impl BufRead) -> io::Result<Found> {
    let mut found = Found::default();
    let mut open: BTreeMap<Option<u32>, Open> = BTreeMap::new();
    let mut before: BTreeMap<Option<u32>, String> = BTreeMap::new();
    // The ranks that lines name: if they name one, all lines are of it.
    let mut named: BTreeSet<u32> = BTreeSet::new();
    let mut raw = Vec::new();
    loop {
        raw.clear();
        if text.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut raw)? == 0 {
            break;
        }
        found.lines += 1;
        let line = Line::of(&String::from_utf8_lossy(&raw));
        if named.len() < 2 {
            named.extend(line.rank);
        }
        found.followed += u64::from(follows(&line.squeezed));
        let anchors = is_anchor(&line.squeezed);
        // Another error of the rank ends its message.
        if let Some(message) = open.get_mut(&line.rank) {
            if anchors && message.lines > 1 && !parse(&message.text).is_empty() {
                close(&mut found, line.rank, open.remove(&line.rank));
            } else {
                // A date is not the rest of a number.
                if line.squeezed.get(4..5) == Some("-") {
                    message.text.push('\n');
                }
                message.text.push_str(&line.squeezed);
                message.lines += 1;
                if message.lines >= MOST_LINES || message.text.len() >= MOST_CHARACTERS {
                    close(&mut found, line.rank, open.remove(&line.rank));
                }
                continue;
            }
        }
        if anchors && open.len() < MOST_OPEN {
            let mut text = before.remove(&line.rank).unwrap_or_default();
            text.push_str(&line.squeezed);
            open.insert(line.rank, Open { line: found.lines, lines: 1, text });
        } else if before.len() < MOST_OPEN {
            before.insert(line.rank, line.squeezed.chars().take(MOST_CHARACTERS).collect());
        }
    }
    for (rank, message) in open {
        close(&mut found, rank, Some(message));
    }
    found.errors.sort_by_key(|error| error.line);
    // Statistics alone are no error.
    found.errors.retain(|error| error.is_failure());
    if let [rank] = named.iter().copied().collect::<Vec<u32>>()[..] {
        found.errors.iter_mut().for_each(|error| error.rank = error.rank.or(Some(rank)));
    }
    Ok(found)
}

/// Parses a message; the same error again is one error.
fn close(found: &mut Found, rank: Option<u32>, message: Option<Open>) {
    let Some(message) = message else { return };
    for error in parse(&message.text) {
        let error = TextError { line: message.line, rank: rank.or(error.rank), ..error };
        let is_near = |known: &&mut TextError| message.line - known.line.min(message.line) <= NEAR;
        if found.errors.iter_mut().rev().take_while(is_near).any(|known| known.join(&error)) {
            continue;
        }
        match found.errors.len() {
            MOST_ERRORS => found.more_errors += 1,
            _ => found.errors.push(error),
        }
    }
}
