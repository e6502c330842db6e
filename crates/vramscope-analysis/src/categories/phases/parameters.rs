//! Sizes of parameters in a recording without stacks. A backward pass makes a gradient for each parameter, of its size.

use hashbrown::HashMap;

use super::run::is_as_large_as_a_workspace;
use crate::history::RecordedAllocation;

/// The largest scalar, in bytes: of type `float64`. Scalars occur too often to show anything by their size.
pub(super) const SCALAR: u64 = 8;

/// The gradients of a pass have at least this share of the bytes of all tensors that may be parameters. With Adam, the model has a third of
/// them in a recording that begins after the first step.
const GRADIENTS: f64 = 0.25;

/// The number of tensors of each size, and their bytes.
#[derive(Debug)]
pub(super) struct ParameterSizes {
    counts: HashMap<u64, usize>,
    bytes: u64,
}

impl ParameterSizes {
    /// Counts the sizes of tensors that may be parameters.
    pub(super) fn of<'h>(tensors: impl Iterator<Item = &'h RecordedAllocation>) -> Self {
        let mut this = Self { counts: HashMap::new(), bytes: 0 };
        for tensor in tensors.filter(|a| a.requested > SCALAR && !is_as_large_as_a_workspace(a)) {
            *this.counts.entry(tensor.requested).or_default() += 1;
            this.bytes += tensor.requested;
        }
        this
    }

    pub(super) fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    pub(super) fn contains(&self, requested: u64) -> bool {
        self.counts.contains_key(&requested)
    }

    /// Whether `made` has the gradients of many of the parameters, one for each.
    pub(super) fn have_gradients_in(&self, made: &[&RecordedAllocation]) -> bool {
        let mut found: HashMap<u64, usize> = HashMap::new();
        let mut bytes = 0;
        for a in made {
            let Some(&count) = self.counts.get(&a.requested) else { continue };
            let found = found.entry(a.requested).or_default();
            if *found < count {
                *found += 1;
                bytes += a.requested;
            }
        }
        bytes > 0 && bytes as f64 >= self.bytes as f64 * GRADIENTS
    }
}
