//! [`Format`]: the formats, by name and by the end of file names.

/// A format of another tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// The Trace Event Format of Chrome and Perfetto, as JSON.
    Chrome,
    /// A heap profile for pprof, gzipped.
    Pprof,
    /// Folded stacks, one in each line.
    Folded,
    /// A flame graph as SVG.
    Flamegraph,
    /// A [table](crate::Table) as comma-separated values.
    Csv,
    /// A [table](crate::Table) as Apache Parquet.
    Parquet,
    /// PyTorch's own snapshot, a pickle.
    Pickle,
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 7] =
        [Self::Chrome, Self::Pprof, Self::Folded, Self::Flamegraph, Self::Csv, Self::Parquet, Self::Pickle];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Chrome => "chrome",
            Self::Pprof => "pprof",
            Self::Folded => "folded",
            Self::Flamegraph => "flamegraph",
            Self::Csv => "csv",
            Self::Parquet => "parquet",
            Self::Pickle => "pickle",
        }
    }

    /// The extension of its files' names.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Chrome => ".json",
            Self::Pprof => ".pb.gz",
            Self::Folded => ".folded",
            Self::Flamegraph => ".svg",
            Self::Csv => ".csv",
            Self::Parquet => ".parquet",
            Self::Pickle => ".pickle",
        }
    }

    /// The format whose extension `file_name` has, in upper or lower case.
    pub fn of_file_name(file_name: &str) -> Option<Self> {
        let name = file_name.to_ascii_lowercase();
        Self::ALL.into_iter().find(|f| name.ends_with(f.extension()))
    }

    /// Whether it is binary, and so not fit for a terminal.
    pub fn is_binary(self) -> bool {
        matches!(self, Self::Pprof | Self::Parquet | Self::Pickle)
    }

    /// Whether it shows what is live at one moment, which can be chosen.
    pub fn shows_a_moment(self) -> bool {
        matches!(self, Self::Pprof | Self::Folded | Self::Flamegraph)
    }

    /// Whether a file of this format holds one of the [tables](crate::Table).
    pub fn is_table(self) -> bool {
        matches!(self, Self::Csv | Self::Parquet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_name_tells_the_format() {
        for format in Format::ALL {
            assert_eq!(Format::of_file_name(&format!("run{}", format.extension())), Some(format));
        }
        assert_eq!(Format::of_file_name("RUN.PB.GZ"), Some(Format::Pprof));
        assert_eq!(Format::of_file_name("run.gz"), None);
        assert_eq!(Format::of_file_name("json"), None);
    }
}
