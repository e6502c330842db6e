//! The section about known problems of programs with a caching allocator.

use vramscope_analysis::Summary;
use vramscope_basics::units::bytes;

use super::page::{BOLD, Page};
use crate::allocator_findings::FindingText;

impl Page<'_> {
    pub(super) fn allocator_findings(&mut self, s: &Summary) {
        if s.findings.is_empty() {
            return;
        }
        self.heading("Allocator findings");
        for finding in &s.findings {
            let FindingText { title, evidence, action } = FindingText::of(&self.names, s, finding);
            let certainty = finding.certainty().name();
            self.line(format!("  {:>11}  {BOLD}{title}{BOLD:#} ({certainty})", bytes(finding.bytes())));
            for text in evidence.iter().chain([&action]) {
                self.words(15, text);
            }
            self.full_stack(finding.evidence().and_then(|(_, stack)| stack));
        }
    }
}
