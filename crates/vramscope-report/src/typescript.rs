//! The TypeScript types of reports and replays for the page of `vramscope view`.

use vramscope_testing::{Declarations, committed};

use crate::replay::json::DeviceReplayJson;
use crate::report::{DeviceJson, SectionText};

const HEAD: &str =
    "// Written by the tests of crates/vramscope-report from its structs: `INSTA_UPDATE=always cargo test -p
// vramscope-report`. docs/json.md describes the keys.
";

#[test]
fn the_page_reads_what_is_written() {
    let mut types = Declarations::default();
    types.add::<DeviceJson>();
    types.add::<SectionText>();
    types.add::<DeviceReplayJson>();
    committed("viewer/src/source/generated/report.ts", &(HEAD.to_owned() + &types.text()));
}
