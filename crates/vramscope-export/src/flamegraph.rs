//! A flame graph as SVG, drawn by `inferno` from the folded stacks.

use std::io::Write;

use inferno::flamegraph::{self, Options};

use crate::error::ExportError;
use crate::folded;
use crate::source::Source;

/// Draws the allocated bytes after event `at` (or at the peak), and returns the number of stacks.
pub(crate) fn write(source: &Source<'_>, at: Option<usize>, mut out: impl Write) -> Result<u64, ExportError> {
    let mut stacks = Vec::new();
    let folded = folded::write(source, at, &mut stacks)?;
    if folded.bytes == 0 {
        return Err(ExportError::NothingAllocated);
    }
    let mut options = Options::default();
    options.title = match at {
        None => "Allocated bytes at their peak".to_owned(),
        Some(event) => format!("Allocated bytes after event {event}"),
    };
    options.count_name = "bytes".to_owned();
    // Deterministic colors, so that the same recording always gives the same picture.
    options.deterministic = true;
    // The picture is built in memory first, to distinguish errors of `inferno` from errors of the output. It is small, because `inferno`
    // leaves out frames that are too narrow to be visible.
    let mut svg = Vec::new();
    flamegraph::from_reader(&mut options, &stacks[..], &mut svg)?;
    out.write_all(&svg)?;
    Ok(folded.lines)
}

#[cfg(test)]
mod tests {
    use crate::{ExportFormat, testing};

    #[test]
    fn a_flame_graph_is_valid_xml_for_any_names() {
        let svg = testing::text(&testing::two_devices(), ExportFormat::Flamegraph);
        let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
        let document = roxmltree::Document::parse_with_options(&svg, options).unwrap();
        let titles: Vec<String> = document
            .descendants()
            .filter(|n| n.has_tag_name("title"))
            .filter_map(|n| n.text().map(str::to_owned))
            .collect();
        assert!(titles.iter().any(|t| t.starts_with("all (3,584 bytes")), "{titles:?}");
        assert!(titles.iter().any(|t| t.contains("a,b\"\\<&>\\u{1b}[31m")), "{titles:?}");
        assert_eq!(svg, testing::text(&testing::two_devices(), ExportFormat::Flamegraph));
    }
}
