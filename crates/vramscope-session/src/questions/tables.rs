//! Tables of names. Answers refer to their entries by position; the page has the same tables
//! (`viewer/src/source/generated/questions.ts`).

use vramscope_analysis::{Code, Origin};
use vramscope_trace::{Action, Category, SegmentKind};

/// The code classification of a frame, as the page shows it.
pub(crate) const CODES: [(Code, &str); 3] =
    [(Code::User, "user"), (Code::Library, "library"), (Code::Native, "native")];

/// The origin of an allocation, as the page shows it; empty if it was recorded normally.
pub(crate) const ORIGINS: [(Origin, &str); 3] = [
    (Origin::Recorded, ""),
    (Origin::EndState, "live before recording"),
    (Origin::FreeOnly, "live before recording; where it was freed"),
];

/// The kinds of segments, as the page shows them.
pub(crate) const SEGMENT_KINDS: [(SegmentKind, &str); 3] =
    [(SegmentKind::Small, "small"), (SegmentKind::Large, "large"), (SegmentKind::Unknown, "unknown")];

/// The position of a category in the page's `CATEGORIES`.
pub(crate) fn category(category: Category) -> u8 {
    Category::ALL.iter().position(|&c| c == category).unwrap_or(Category::ALL.len()) as u8
}

/// The position in [`CODES`].
pub(crate) fn code(code: Code) -> u8 {
    position(&CODES, code)
}

/// The position in [`SEGMENT_KINDS`].
pub(crate) fn kind(kind: SegmentKind) -> u8 {
    position(&SEGMENT_KINDS, kind)
}

/// The position in [`ORIGINS`].
pub(crate) fn origin(origin: Origin) -> u8 {
    position(&ORIGINS, origin)
}

/// The position of an action in the page's `ACTIONS`: those that PyTorch names, and one for all others.
pub(crate) fn action(action: Action) -> u8 {
    Action::KNOWN.iter().position(|&a| a == action).unwrap_or(Action::KNOWN.len()) as u8
}

/// The position of an entry in a table.
fn position<T: PartialEq>(table: &[(T, &str)], thing: T) -> u8 {
    table.iter().position(|(named, _)| *named == thing).unwrap_or(table.len()) as u8
}
