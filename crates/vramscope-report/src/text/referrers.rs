//! The section about tensors whose referrers are recorded.

use vramscope_analysis::Summary;
use vramscope_basics::units::{bytes, count, counted};
use vramscope_trace::TensorNote;

use super::page::{BOLD, Page};
use crate::findings::tensor_words;
use crate::fit::fit;
use crate::shown::Shown;

impl Page<'_> {
    pub(super) fn referrers(&mut self, s: &Summary) {
        if s.referred.is_empty() {
            return;
        }
        let found = counted(s.referred.len() as u64, "tensor");
        self.heading(&format!("References at the snapshot: {found}"));
        for tensor in s.referred.iter().take(self.options.top) {
            let trace = self.names.trace;
            let note = TensorNote::parse(trace.strings.get(tensor.text)).unwrap_or_default();
            let words = fit(&tensor_words(&note), self.options.width.saturating_sub(16));
            self.line(format!("  {:>11}  {BOLD}{words}{BOLD:#}", bytes(tensor.of.size)));
            for chain in &note.referrers {
                let chain = fit(&Shown::of(chain), self.options.width.saturating_sub(16));
                self.line(format!("               {chain}"));
            }
        }
        let more = s.referred.len().saturating_sub(self.options.top);
        if more > 0 {
            self.words(2, &format!("... {} more", count(more as u64)));
        }
    }
}

#[cfg(test)]
mod tests {
    use vramscope_analysis::{Frames, Options, Summary};
    use vramscope_trace::formats;

    use crate::answers::Answers;
    use crate::text::{TextOptions, report};
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
        let json = serde_json::to_value(ReportJson::new(&answers, Some(1))).unwrap();
        let tensors = &json["devices"][0]["referred_tensors"];
        assert_eq!(tensors.as_array().unwrap().len(), 1);
        assert_eq!((&tensors[0]["event"], &tensors[0]["name"]), (&1.into(), &serde_json::Value::Null));
        assert_eq!(tensors[0]["referrers"][0], "main (train.py:12): history[17].\u{1b}[31mloss");
    }
}
