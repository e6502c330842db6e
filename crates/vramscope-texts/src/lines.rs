//! Lines without colours, quotes and prefixes, and the rank that wrote each.

use std::sync::LazyLock;

use regex::Regex;

/// A regular expression of this crate; each is compiled in a test.
pub(crate) fn regex(pattern: &str) -> Option<Regex> {
    Regex::new(pattern).ok()
}

/// The forms in which launchers and programs name the rank of a line: torchrun, its `default` role, srun, mpirun, workers of SGLang and vLLM.
static RANKS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    regex(concat!(
        r"^\s*(?:\[rank(\d+)\]:|\[default(\d+)\]:|(\d{1,6}): |\[\d+,(\d+)\]<std(?:err|out)>:)",
        r"|^\[[^\]]* TP(\d+)\]|^\(?(?:Vllm)?Worker(?:_TP|(?:Process)?(?: TP\d+)? ?rank=)(\d+)"
    ))
});

/// Escape sequences of terminals.
static ESCAPES: LazyLock<Option<Regex>> =
    LazyLock::new(|| regex("\x1b(?:\\[[0-9;?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)|[@-Z])"));

/// A line, and its rank if it names one.
pub(crate) struct Line {
    pub(crate) rank: Option<u32>,
    /// Without whitespace, so that the place of a line break does not matter.
    pub(crate) squeezed: String,
}

impl Line {
    pub(crate) fn of(raw: &str) -> Self {
        // A notebook is JSON, whose strings have escapes.
        let raw = if raw.contains("\\u001b") || raw.trim_start().starts_with('"') {
            raw.replace("\\u001b", "\x1b").replace("\\n", " ").replace("\\\"", "\"")
        } else {
            raw.to_owned()
        };
        let text = ESCAPES.as_ref().map_or(raw.as_str().into(), |escapes| escapes.replace_all(&raw, ""));
        let text = text.trim_start_matches(['>', ' ']);
        let rank = RANKS.as_ref().and_then(|ranks| {
            let found = ranks.captures(text)?;
            let rank = found.iter().skip(1).flatten().next()?;
            Some((rank.as_str().parse().ok()?, found.get(0)?))
        });
        // The prefix of a launcher may stand within a message that is broken into lines.
        let rest = match &rank {
            Some((_, prefix)) if prefix.as_str().ends_with(':') || prefix.as_str().ends_with(": ") => {
                &text[prefix.end()..]
            }
            _ => text,
        };
        Self {
            rank: rank.map(|(rank, _)| rank),
            squeezed: rest.chars().filter(|c| !c.is_whitespace()).collect(),
        }
    }
}
