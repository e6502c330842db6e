//! Transforms of the call tree.

use serde::Deserialize;
use vramscope_analysis::CallsOf;

/// Frames that a transform is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(tag = "of", rename_all = "snake_case")]
pub enum FramesOf {
    /// The frames of a function, by its short name and the short path of its file. The path is empty for compiled code.
    Function { name: String, file: String },
    /// The frames of a file, by its short path.
    File { name: String },
    /// The frames of a library.
    Library { name: String },
}

/// A transform of the call tree. Transforms that keep only some allocations are also a condition of a search.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "CallTransform"))]
#[serde(tag = "does", rename_all = "snake_case")]
pub enum CallTransform {
    /// Keeps the allocations through these frames. The tree begins at the outermost of them.
    Focus { frames: FramesOf },
    /// Keeps the allocations of a node of the tree of these calls, by the texts of its path from the root. The tree begins at it.
    FocusPath {
        #[cfg_attr(test, ts(type = "CallsOf"))]
        calls: CallsOf,
        inverted: bool,
        path: Vec<String>,
    },
    /// Keeps the allocations that have none of these frames.
    Drop { frames: FramesOf },
    /// Removes these frames from the tree. Their bytes go to their callers.
    Merge { frames: FramesOf },
    /// Shows adjacent frames of these as one.
    Collapse { frames: FramesOf },
    /// Shows adjacent frames of a library as one, for all libraries but the expanded ones.
    CollapseLibraries { expanded: Vec<String> },
    /// Shows everything from the outermost to the innermost of these frames as one.
    CollapseRecursion { frames: FramesOf },
}
