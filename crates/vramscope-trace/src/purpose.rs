//! [`Purpose`]: category, phase and module of an allocation, as a recording has them.

use std::fmt;

use crate::named::named;
use crate::tensor_note::TensorNote;

named! {
    /// Category of memory in a training or serving program, by the names of PyTorch's memory profiler.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum Category {
        /// Weights, trained or frozen.
        Parameter = "parameter",
        /// Tensors of a module that are not trained, such as running means.
        Buffer = "buffer",
        /// The gradient of a parameter.
        Gradient = "gradient",
        /// State that an optimizer keeps for each parameter.
        OptimizerState = "optimizer_state",
        /// Tensors that the forward pass saves for the backward pass.
        Activation = "activation",
        /// Inputs of the program to its model.
        Input = "input",
        /// Memory that lives within an operation or between two operations, and everything else.
        Temporary = "temporary",
        /// Buffers of collective operations.
        Communication = "communication",
        /// Key-value cache of a generating model.
        KvCache = "kv_cache",
        /// Workspaces of libraries such as cuBLAS.
        Workspace = "workspace",
        /// Live before recording began.
        Preexisting = "preexisting",
        /// Unknown.
        Unknown = "unknown",
    }
    /// All categories, in display order for equal bytes.
    ALL
    /// Returns the category's name in recordings and in JSON.
    #[must_use]
    name
}

impl Category {
    /// Whether the category is known: neither preexisting nor unknown.
    #[must_use]
    pub fn is_told(self) -> bool {
        !matches!(self, Self::Preexisting | Self::Unknown)
    }

    /// Returns the category with this name. Ignores case, because PyTorch's memory profiler writes capitals.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|c| c.name().eq_ignore_ascii_case(name))
    }
}

named! {
    /// The part of a training step in which memory was allocated.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum Phase {
        /// The forward pass of a module.
        Forward = "forward",
        /// The backward pass.
        Backward = "backward",
        /// The optimizer step.
        Optimizer = "optimizer",
        /// The gradients are set to zero or freed.
        ZeroGrad = "zero_grad",
    }
    /// All phases, in the order of a step.
    ALL
    /// Returns the phase's name in recordings and in JSON.
    #[must_use]
    name
}

/// Category, phase and module of an allocation. The Python package writes it as a separate line of `user_metadata`, after the program's
/// text: `vramscope:category=activation;module=transformer.h.0.attn;phase=backward`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Purpose<'a> {
    /// Category of the allocation.
    pub category: Option<Category>,
    /// Phase of the allocation.
    pub phase: Option<Phase>,
    /// The module that allocated the memory, by its path in `named_modules()`. The root module has the empty path.
    pub module: Option<&'a str>,
}

/// Prefix of the line in `user_metadata`.
const PREFIX: &str = "vramscope:";

impl<'a> Purpose<'a> {
    /// Parses `user_metadata`. Returns an empty purpose if no line has this form. Unknown names are ignored.
    #[must_use]
    pub fn parse(metadata: &'a str) -> Self {
        let mut purpose = Self::default();
        let Some(line) = metadata.rsplit('\n').find_map(|line| line.strip_prefix(PREFIX)) else {
            return purpose;
        };
        // A module's name may contain any character except a dot, so the phase is searched from the end.
        let mut rest = line;
        if let Some((before, phase)) = line.rsplit_once("phase=")
            && (before.is_empty() || before.ends_with(';'))
        {
            purpose.phase = Phase::ALL.into_iter().find(|p| p.name() == phase);
            rest = before.strip_suffix(';').unwrap_or(before);
        }
        if let Some(after) = rest.strip_prefix("category=") {
            let (category, after) = after.split_once(';').unwrap_or((after, ""));
            purpose.category = Category::named(category);
            rest = after;
        }
        purpose.module = rest.strip_prefix("module=");
        purpose
    }

    /// Returns the program's text in `user_metadata`, without the lines of the Python package.
    #[must_use]
    pub fn strip(metadata: &str) -> &str {
        let metadata = TensorNote::strip(metadata);
        match metadata.rsplit_once('\n') {
            Some((own, line)) if line.starts_with(PREFIX) => own,
            None if metadata.starts_with(PREFIX) => "",
            _ => metadata,
        }
    }
}

impl fmt::Display for Purpose<'_> {
    /// Writes the line of `user_metadata`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(PREFIX)?;
        let mut separator = "";
        let mut pair = |key, value: &str| {
            let separator = std::mem::replace(&mut separator, ";");
            write!(f, "{separator}{key}={value}")
        };
        if let Some(category) = self.category {
            pair("category", category.name())?;
        }
        if let Some(module) = self.module {
            pair("module", module)?;
        }
        if let Some(phase) = self.phase {
            pair("phase", phase.name())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_purpose_is_read_as_it_is_written() {
        for category in [None, Some(Category::OptimizerState)] {
            for phase in [None, Some(Phase::Backward)] {
                for module in [None, Some(""), Some("h.0;odd=name.attn")] {
                    let purpose = Purpose { category, phase, module };
                    let written = purpose.to_string();
                    assert_eq!(Purpose::parse(&written), purpose, "{written}");
                    assert_eq!(Purpose::parse(&format!("the program's own\n{written}")), purpose);
                }
            }
        }
    }

    #[test]
    fn texts_set_by_the_program_are_kept_separate() {
        assert_eq!(Purpose::strip("vramscope:category=input"), "");
        assert_eq!(Purpose::strip("loader\nworker 3\nvramscope:category=input"), "loader\nworker 3");
        assert_eq!(Purpose::strip("loader\nworker 3"), "loader\nworker 3");
    }

    #[test]
    fn texts_without_a_category_have_no_purpose() {
        for text in [
            "",
            "vramscope",
            "vramscope:",
            "category=input",
            "vramscope:category",
            "vramscope:category=later;more=1",
        ] {
            assert_eq!(Purpose::parse(text), Purpose::default(), "{text}");
        }
    }

    #[test]
    fn every_category_is_found_by_its_name() {
        for category in Category::ALL {
            assert_eq!(Category::named(&category.name().to_uppercase()), Some(category));
        }
    }
}
