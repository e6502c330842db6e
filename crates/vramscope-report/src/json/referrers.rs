//! JSON of tensors whose referrers are recorded.

use serde::Serialize;
use vramscope_analysis::{Moment, ReferredTensor};
use vramscope_trace::TensorNote;

use super::stacks::Builder;

/// A tensor to which Python objects referred when the snapshot was taken.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "ReferredTensor"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "ReportReferredTensor"))]
pub(super) struct ReferredTensorJson {
    /// The allocation; null if it is older than the recording.
    event: Option<usize>,
    /// Its free; null if it was not freed.
    free_event: Option<usize>,
    address: u64,
    bytes: u64,
    /// Name of a parameter, of its gradient or of an optimizer state, as `gradient of fc.weight`; null for other tensors.
    name: Option<String>,
    /// Type of the values, as `float32`.
    dtype: String,
    /// The shape, as `(1024, 768)`.
    shape: String,
    /// Chains of references from a variable to the tensor, at most three.
    referrers: Vec<String>,
}

impl Builder<'_> {
    pub(super) fn referred_tensors(&self, tensors: &[ReferredTensor]) -> Option<Vec<ReferredTensorJson>> {
        let shown = tensors.len().min(self.top.unwrap_or(usize::MAX));
        (!tensors.is_empty()).then(|| tensors[..shown].iter().map(|t| self.referred_tensor(t)).collect())
    }

    fn referred_tensor(&self, tensor: &ReferredTensor) -> ReferredTensorJson {
        let note = TensorNote::parse(self.names.trace.strings.get(tensor.text)).unwrap_or_default();
        let event = |m: Moment| Some(m).filter(|&m| m != Moment::NEVER).and_then(Moment::event);
        ReferredTensorJson {
            event: event(tensor.of.from),
            free_event: event(tensor.of.freed),
            address: tensor.of.address,
            bytes: tensor.of.size,
            name: (!note.name.is_empty()).then(|| note.name.to_owned()),
            dtype: note.dtype.to_owned(),
            shape: note.shape.to_owned(),
            referrers: note.referrers.iter().map(|&chain| chain.to_owned()).collect(),
        }
    }
}
