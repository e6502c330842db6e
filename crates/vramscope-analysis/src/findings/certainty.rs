//! How far a recording proves a conclusion.

/// How far a recording proves a conclusion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Certainty {
    /// Events of the recording, or an exact replay of it, show the problem.
    Shown,
    /// The events show the problem, if the program goes on as before.
    Likely,
    /// Only the end state shows the problem.
    Possible,
}

impl Certainty {
    /// The name in JSON and in sentences.
    pub fn name(self) -> &'static str {
        match self {
            Self::Shown => "shown",
            Self::Likely => "likely",
            Self::Possible => "possible",
        }
    }
}
