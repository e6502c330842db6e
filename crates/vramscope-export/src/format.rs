//! [`ExportFormat`]: the export formats, by name and by file name ending.

/// An export format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ExportFormat {
    /// The Trace Event Format of Chrome and Perfetto, as JSON.
    Chrome,
    /// A heap profile for pprof, gzipped.
    Pprof,
    /// Folded stacks, one per line.
    Folded,
    /// A flame graph as SVG.
    Flamegraph,
    /// A [table](crate::Table) as comma-separated values.
    Csv,
    /// A [table](crate::Table) as Apache Parquet.
    Parquet,
    /// A PyTorch snapshot as pickle.
    Pickle,
    /// A [log](vramscope_trace::formats::log), as programs write it while they run.
    Log,
}

impl ExportFormat {
    /// All formats.
    pub const ALL: [Self; 8] = [
        Self::Chrome,
        Self::Pprof,
        Self::Folded,
        Self::Flamegraph,
        Self::Csv,
        Self::Parquet,
        Self::Pickle,
        Self::Log,
    ];

    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Chrome => "chrome",
            Self::Pprof => "pprof",
            Self::Folded => "folded",
            Self::Flamegraph => "flamegraph",
            Self::Csv => "csv",
            Self::Parquet => "parquet",
            Self::Pickle => "pickle",
            Self::Log => "log",
        }
    }

    /// Returns the ending of its file names.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Chrome => ".json",
            Self::Pprof => ".pb.gz",
            Self::Folded => ".folded",
            Self::Flamegraph => ".svg",
            Self::Csv => ".csv",
            Self::Parquet => ".parquet",
            Self::Pickle => ".pickle",
            Self::Log => ".vramscope",
        }
    }

    /// Returns the format with the ending of `file_name`, ignoring case.
    pub fn of_file_name(file_name: &str) -> Option<Self> {
        let name = file_name.to_ascii_lowercase();
        Self::ALL.into_iter().find(|f| name.ends_with(f.extension()))
    }

    /// Whether the format is binary, so that it should not be written to a terminal.
    pub fn is_binary(self) -> bool {
        matches!(self, Self::Pprof | Self::Parquet | Self::Pickle | Self::Log)
    }

    /// Whether the format shows the live allocations at one event, which the caller can choose.
    pub fn shows_a_moment(self) -> bool {
        matches!(self, Self::Pprof | Self::Folded | Self::Flamegraph)
    }

    /// Whether a file of this format contains one of the [tables](crate::Table).
    pub fn is_table(self) -> bool {
        matches!(self, Self::Csv | Self::Parquet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_name_tells_the_format() {
        for format in ExportFormat::ALL {
            assert_eq!(ExportFormat::of_file_name(&format!("run{}", format.extension())), Some(format));
        }
        assert_eq!(ExportFormat::of_file_name("RUN.PB.GZ"), Some(ExportFormat::Pprof));
        assert_eq!(ExportFormat::of_file_name("run.gz"), None);
        assert_eq!(ExportFormat::of_file_name("json"), None);
    }
}
