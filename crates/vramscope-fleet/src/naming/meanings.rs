//! The meaning of words before a number.

/// Names of parallel groups.
pub(super) const GROUPS: [&str; 5] = ["tp", "pp", "dp", "ep", "cp"];

/// The meaning of a number after a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Meaning {
    /// A rank, as in `rank3`.
    Rank,
    /// A short form of rank, as in `r3`.
    ShortRank,
    /// A rank if the number differs, as in `snapshot_3`.
    Number,
    /// A number that counts on each host, as in `local_rank3` or `gpu3`.
    OnHost,
    /// The number of a parallel group, as in `tp1`.
    Group(&'static str),
    /// Another number, as in `step100`.
    Other,
}

/// Returns the meaning of a number after these words, given in lower case with `_` between them.
pub(super) fn meaning(before: &str) -> Meaning {
    let mut words = before.rsplit('_');
    let last = words.next().unwrap_or_default();
    let group = |word: &str| GROUPS.into_iter().find(|group| *group == word);
    if let Some(group) = group(last) {
        return Meaning::Group(group);
    }
    match last {
        "rank" => match words.next() {
            Some("local") => Meaning::OnHost,
            Some(word) => group(word).map_or(Meaning::Rank, Meaning::Group),
            None => Meaning::Rank,
        },
        "localrank" | "gpu" | "cuda" | "device" | "dev" => Meaning::OnHost,
        "r" => Meaning::ShortRank,
        "host" | "hostname" | "node" | "step" | "steps" | "iter" | "iteration" | "epoch" | "seed" | "run"
        | "size" | "ws" | "world" | "of" | "v" | "torch" | "pid" | "job" => Meaning::Other,
        word if word.ends_with("rank") => Meaning::Rank,
        _ => Meaning::Number,
    }
}

/// Returns the host in a path, such as `host-03` or `node7`.
pub(super) fn host(path: &str) -> Option<String> {
    path.split('/').find_map(|part| {
        let mut words = part.split(['_', '.']);
        let is_host = |word: &str| {
            let lower = word.to_ascii_lowercase();
            let rest = ["hostname", "host", "node"].iter().find_map(|name| lower.strip_prefix(name));
            rest.is_some_and(|rest| {
                rest.is_empty() || rest.starts_with(|c: char| c.is_ascii_digit() || "-=".contains(c))
            })
        };
        let word = words.find(|word| is_host(word))?;
        let is_whole = word.contains(|c: char| c.is_ascii_digit() || "-=".contains(c));
        if is_whole { Some(word.to_owned()) } else { words.next().map(|name| format!("{word}_{name}")) }
    })
}

/// Returns a sort key that compares numbers in texts by value.
pub(super) fn natural(text: &str) -> impl Ord + use<> {
    let mut parts: Vec<Part> = Vec::new();
    for c in text.chars() {
        match (parts.last_mut(), c.to_digit(10)) {
            (Some(Part::Number(number)), Some(digit)) => {
                *number = number.saturating_mul(10).saturating_add(u64::from(digit));
            }
            (_, Some(digit)) => parts.push(Part::Number(u64::from(digit))),
            (_, None) => parts.push(Part::Letter(c)),
        }
    }
    parts
}

/// Numbers sort before letters.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Number(u64),
    Letter(char),
}
