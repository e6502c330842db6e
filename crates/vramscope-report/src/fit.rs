//! Fits text into a number of columns. The cost is at most linear in the length of the text.

use unicode_width::UnicodeWidthChar as _;

/// Limit on characters per column: a letter and its combining marks. Longer runs of zero-width characters are cut.
const MOST_IN_A_COLUMN: usize = 8;

/// Remaining room in a line.
#[derive(Clone, Copy)]
struct Room {
    columns: usize,
    characters: usize,
}

impl Room {
    fn of(columns: usize) -> Self {
        Self { columns, characters: columns.saturating_mul(MOST_IN_A_COLUMN) }
    }

    /// Takes room for `c`; `None` if there is none left.
    fn take(&mut self, c: char) -> Option<()> {
        self.columns = self.columns.checked_sub(c.width().unwrap_or(0))?;
        self.characters = self.characters.checked_sub(1)?;
        Some(())
    }
}

fn fits(text: &str, columns: usize) -> bool {
    let mut room = Room::of(columns);
    text.chars().all(|c| room.take(c).is_some())
}

/// Shortens `text`, a name or a path and a name, to at most `columns`: cuts directories first, then the end.
pub fn fit(text: &str, columns: usize) -> String {
    if fits(text, columns) {
        return text.to_owned();
    }
    let path = text.split(' ').next().unwrap_or_default();
    // Walk back from the end while there is room for the ellipsis.
    let mut room = Room::of(columns.saturating_sub(1));
    let mut start = None;
    for (at, c) in text.char_indices().rev() {
        if room.take(c).is_none() {
            break;
        }
        if c == '/' && at < path.len() {
            start = Some(at);
        }
    }
    match start {
        Some(start) => format!("…{}", &text[start..]),
        None => cut(path.rfind('/').map_or(text, |at| &text[at + 1..]), columns, true),
    }
}

/// Cuts `text` at its end to at most `columns`.
pub fn fit_end(text: &str, columns: usize) -> String {
    cut(text, columns, !fits(text, columns))
}

/// Cuts `text` in its middle to at most `columns`: both ends of a long name or of a chain tell it apart from others.
pub(crate) fn fit_middle(text: &str, columns: usize) -> String {
    if fits(text, columns) {
        return text.to_owned();
    }
    let mut room = Room::of(columns - columns / 3);
    let start = text.char_indices().rev().take_while(|&(_, c)| room.take(c).is_some()).last();
    let start = start.map_or(text.len(), |(at, _)| at);
    format!("{}{}", cut(text, columns / 3, true), &text[start..])
}

/// The start of `text` that fits; ends with an ellipsis if `is_part`.
fn cut(text: &str, columns: usize, is_part: bool) -> String {
    if !is_part {
        return text.to_owned();
    }
    let mut room = Room::of(columns.saturating_sub(1));
    let end = text.char_indices().find(|&(_, c)| room.take(c).is_none()).map_or(text.len(), |(at, _)| at);
    format!("{}…", &text[..end])
}

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr as _;

    use super::*;

    #[test]
    fn long_names_lose_their_directories_first() {
        assert_eq!(fit("a/b/model.py:42 forward", 30), "a/b/model.py:42 forward");
        assert_eq!(fit("some/where/model.py:42 forward", 23), "…/model.py:42 forward");
        assert_eq!(fit("some/where/model.py:42 forward", 12), "model.py:42…");
        assert_eq!(fit("BmmBackward0::apply", 8), "BmmBack…");
        // A slash in a function name does not separate directories.
        assert_eq!(fit("model.py:42 a/b/c/d/e", 14), "model.py:42 a…");
    }

    #[test]
    fn a_text_that_is_too_wide_loses_its_end() {
        assert_eq!(fit_end("training", 8), "training");
        assert_eq!(fit_end("training", 7), "traini…");
        assert_eq!(fit_end("模型模型", 7), "模型模…");
    }

    /// Measuring the rest again at each slash would take days.
    #[test]
    fn slashes_without_end_and_letters_without_width_are_cut_at_once() {
        for text in ["/".repeat(4 << 20), "/x".repeat(2 << 20), "/\u{301}".repeat(2 << 20)] {
            for columns in [0, 1, 16, 100] {
                let fitted = [fit(&text, columns), fit_end(&text, columns)];
                for fitted in fitted {
                    assert!(fitted.width() <= columns.max(1), "{columns}: {}", fitted.width());
                    assert!(fitted.chars().count() <= 8 * columns + 1);
                }
            }
        }
        let marks = fit(&"\u{301}".repeat(1 << 20), 80);
        assert!(marks.chars().count() <= 8 * 80 + 1, "{}", marks.chars().count());
    }
}
