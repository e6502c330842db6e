//! The memory of each module of a model, including the modules inside it.

use hashbrown::HashMap;
use vramscope_trace::Phase;

use crate::categories::AllocationCategories;
use crate::history::RecordedAllocation;

/// A `torch.nn.Module`, with the allocations that it and the modules inside it made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Layer {
    /// The module's path in the model; empty for the outermost module.
    pub path: String,
    /// Number of enclosing modules.
    pub depth: usize,
    /// Bytes of the blocks.
    pub bytes: u64,
    /// Bytes of the blocks made in a forward pass.
    pub forward: u64,
    /// Bytes of the blocks made in a backward pass.
    pub backward: u64,
    /// Number of blocks.
    pub count: u64,
}

/// Returns every module that made some of `allocations`, and their enclosing modules. Each module comes before the modules inside
/// it; among siblings, the largest comes first. Allocations that no module made are left out.
pub(crate) fn layers<'h>(
    categories: &AllocationCategories,
    allocations: impl Iterator<Item = &'h RecordedAllocation>,
) -> Vec<Layer> {
    let mut found: HashMap<String, Layer> = HashMap::new();
    for a in allocations {
        let Some(path) = categories.layer(a) else { continue };
        let phase = categories.phase(a);
        for (depth, path) in around(path).enumerate() {
            let layer = found.entry_ref(path).or_insert_with(|| Layer {
                path: path.to_owned(),
                depth,
                ..Layer::default()
            });
            layer.bytes += a.size;
            layer.count += 1;
            layer.forward += if phase == Some(Phase::Forward) { a.size } else { 0 };
            layer.backward += if phase == Some(Phase::Backward) { a.size } else { 0 };
        }
    }
    let mut layers: Vec<Layer> = found.values().cloned().collect();
    // In the order of a tree walk: at each level by bytes, then by name.
    let rank = |path: &str| found.get(path).map_or(0, |l| l.bytes);
    layers.sort_by_cached_key(|layer| {
        let steps = around(&layer.path).map(|path| (std::cmp::Reverse(rank(path)), path.to_owned()));
        steps.collect::<Vec<_>>()
    });
    layers
}

/// Returns a module's path and those of its enclosing modules, outermost first: for `h.0.attn` the empty path, `h`, `h.0` and
/// `h.0.attn`.
fn around(path: &str) -> impl Iterator<Item = &str> {
    let inner =
        path.match_indices('.').map(|(dot, _)| &path[..dot]).chain((!path.is_empty()).then_some(path));
    std::iter::once("").chain(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_counted_from_the_outermost_to_the_innermost() {
        let paths = |path: &'static str| around(path).collect::<Vec<_>>();
        assert_eq!(paths(""), [""]);
        assert_eq!(paths("head"), ["", "head"]);
        assert_eq!(paths("h.0.attn"), ["", "h", "h.0", "h.0.attn"]);
    }
}
