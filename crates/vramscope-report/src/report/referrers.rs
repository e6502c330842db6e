//! The section about tensors whose referrers are recorded.

use serde::Serialize;
use vramscope_analysis::{Moment, ReferredTensor, Summary};
use vramscope_basics::units::{bytes, count, counted};
use vramscope_trace::TensorNote;

use crate::fit::fit_middle;
use crate::json::stacks::Builder;
use crate::shown::Shown;
use crate::text::lines::BOLD;
use crate::text::page::Page;

/// A tensor to which Python objects referred when the snapshot was taken.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "ReferredTensor"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "ReportReferredTensor"))]
pub(crate) struct ReferredTensorJson {
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
    pub(crate) fn referred_tensors(&self, tensors: &[ReferredTensor]) -> Option<Vec<ReferredTensorJson>> {
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

impl Page<'_> {
    pub(crate) fn referrers(&mut self, s: &Summary) {
        if s.referred.is_empty() {
            return;
        }
        let found = counted(s.referred.len() as u64, "tensor");
        self.heading(&format!("References at the snapshot: {found}"));
        for tensor in s.referred.iter().take(self.options.top) {
            let trace = self.names.trace;
            let note = TensorNote::parse(trace.strings.get(tensor.text)).unwrap_or_default();
            let words = fit_middle(&tensor_words(&note), self.options.width.saturating_sub(16));
            self.line(format!("  {:>11}  {BOLD}{words}{BOLD:#}", bytes(tensor.of.size)));
            for chain in &note.referrers {
                let chain = fit_middle(&Shown::of(chain), self.options.width.saturating_sub(16));
                self.line(format!("               {chain}"));
            }
        }
        let more = s.referred.len().saturating_sub(self.options.top);
        if more > 0 {
            self.words(2, &format!("... {} more", count(more as u64)));
        }
    }
}

/// The name, the type and the shape of a tensor, as `fc.weight, float32 (1024, 768)`.
pub(super) fn tensor_words(note: &TensorNote<'_>) -> Shown {
    let kind = format!("{} {}", note.dtype, note.shape);
    Shown::of(&if note.name.is_empty() { kind } else { format!("{}, {kind}", note.name) })
}

#[cfg(test)]
mod tests {
    use vramscope_analysis::{Frames, Options, Summary};
    use vramscope_trace::formats;

    use crate::answers::Answers;
    use crate::report::report;
    use crate::text::TextOptions;
    use crate::{Advice, ReportJson};

    #[test]
    fn referrers_are_listed_by_the_size_of_their_tensor() {
        let event = |at: u64, mib: u64, name: &str, chains: &[&str]| {
            let chains: String = chains.iter().map(|c| format!("\nvramscope-referrer:{c}")).collect();
            let text = format!("vramscope-tensor:dtype=float32;shape=({mib}, 262144){name}{chains}");
            serde_json::json!({"action": "alloc", "addr": at << 30, "size": mib << 20, "stream": 0, "user_metadata": text})
        };
        let events = [
            event(1, 1, ";name=fc.weight", &["__main__.model.fc.weight", "__main__.optimizer.state.keys()"]),
            event(2, 8, "", &["main (train.py:12): history[17].\u{1b}[31mloss"]),
        ];
        let snapshot = serde_json::json!({"segments": [], "device_traces": [events]}).to_string();
        let recording = formats::read(snapshot.as_bytes()).unwrap();
        let frames = Frames::of(&recording.trace);
        let devices = vec![Summary::of(&recording.trace, 0, &frames, &Options::default())];
        let answers = Answers {
            file: "f",
            recording: &recording,
            frames: &frames,
            devices,
            by: None,
            at: None,
            top: Some(1),
            advice: Advice::default(),
        };
        let section = |top| {
            let text = report(&answers, TextOptions { width: 100, top, full_stacks: false });
            let text = text.replace("\u{1b}[1m", "").replace("\u{1b}[0m", "");
            let begin = text.find("References at").unwrap();
            text[begin..].split("\n\n").next().unwrap().to_owned()
        };
        assert_eq!(
            section(10),
            "References at the snapshot: 2 tensors
     8.00 MiB  float32 (8, 262144)
               main (train.py:12): history[17].\\u{1b}[31mloss
     1.00 MiB  fc.weight, float32 (1, 262144)
               __main__.model.fc.weight
               __main__.optimizer.state.keys()"
        );
        assert!(section(1).ends_with("... 1 more"));
        let json = serde_json::to_value(ReportJson::new(&answers)).unwrap();
        let tensors = &json["devices"][0]["referred_tensors"];
        assert_eq!(tensors.as_array().unwrap().len(), 1);
        assert_eq!((&tensors[0]["event"], &tensors[0]["name"]), (&1.into(), &serde_json::Value::Null));
        assert_eq!(tensors[0]["referrers"][0], "main (train.py:12): history[17].\u{1b}[31mloss");
    }
}
