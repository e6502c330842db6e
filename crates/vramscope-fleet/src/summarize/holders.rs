//! The holders at the peak: the largest groups and the rest.

use vramscope_analysis::{Holder, HolderKey, Layer, Origin};
use vramscope_report::Names;
use vramscope_trace::FrameId;

use crate::summary::{Held, Holders};

/// Limit on the individual lines and layers.
const MOST: usize = 32;

/// Limit on the bytes of a path; longer paths lose their beginning.
const LONGEST_PATH: usize = 256;

pub(super) fn lines(names: &Names<'_>, holders: &[Holder]) -> Holders {
    of(holders.iter().map(|h| Held {
        // A place of a free is not a place of an allocation: the name contains which of the two is known.
        name: names.wide_holder(h).into(),
        place: match h.key {
            HolderKey::Line(frame) if h.origin != Some(Origin::FreeOnly) => Some(place(names, frame)),
            _ => None,
        },
        preexisting: h.origin.is_some_and(|origin| origin != Origin::Recorded),
        bytes: h.bytes,
        count: h.count,
    }))
}

pub(super) fn categories(names: &Names<'_>, holders: &[Holder]) -> Holders {
    of(holders.iter().map(|h| Held {
        name: names.key(&h.key).into(),
        place: None,
        preexisting: false,
        bytes: h.bytes,
        count: h.count,
    }))
}

/// Returns the allocations of each module, without inner modules; the rest of `allocated` bytes belongs to no module.
pub(super) fn layers(layers: &[Layer], allocated: u64) -> Holders {
    if layers.is_empty() {
        return Holders::default();
    }
    let mut held: Vec<Held> =
        layers.iter().enumerate().map(|(at, layer)| of_its_own(layer, &layers[at + 1..])).collect();
    let all: u64 = held.iter().map(|h| h.bytes).sum();
    held.push(Held {
        name: "(no module)".to_owned(),
        place: None,
        preexisting: false,
        bytes: allocated.saturating_sub(all),
        count: 0,
    });
    held.retain(|h| h.bytes > 0);
    held.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.name.cmp(&b.name)));
    of(held.into_iter())
}

/// Returns the allocations of a module without its inner modules, which follow it in the list.
fn of_its_own(layer: &Layer, following: &[Layer]) -> Held {
    let inside =
        following.iter().take_while(|l| l.depth > layer.depth).filter(|l| l.depth == layer.depth + 1);
    let (bytes, count) = inside.fold((0, 0), |(bytes, count), l| (bytes + l.bytes, count + l.count));
    let name = if layer.path.is_empty() { "(the outermost module)" } else { &layer.path };
    Held {
        name: name.to_owned(),
        place: None,
        preexisting: false,
        bytes: layer.bytes.saturating_sub(bytes),
        count: layer.count.saturating_sub(count),
    }
}

/// Returns the first groups individually, and the sum of the rest.
fn of(mut held: impl Iterator<Item = Held>) -> Holders {
    let top = held.by_ref().take(MOST).collect();
    let (rest_bytes, rest_groups) = held.fold((0, 0), |(bytes, groups), h| (bytes + h.bytes, groups + 1));
    Holders { top, rest_bytes, rest_groups }
}

/// Returns an identifier of a line that is the same in recordings of other hosts.
pub(super) fn place(names: &Names<'_>, frame: FrameId) -> String {
    let trace = names.trace;
    let line = trace.frames.get(frame);
    let path = trace.strings.get(line.filename);
    let path = &path[path.ceil_char_boundary(path.len().saturating_sub(LONGEST_PATH))..];
    format!("{path}:{} {}", line.line, names.function(frame))
}
