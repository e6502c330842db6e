//! The TypeScript types of reports and replays for the page of `vramscope view`.

use vramscope_testing::{Declarations, committed};

use super::replay::DeviceReplayJson;
use super::report::DeviceJson;

const HEAD: &str = "// Written by the tests of crates/vramscope-report from the structs in src/json: `INSTA_UPDATE=always cargo test -p
// vramscope-report`. docs/json.md describes the keys.
";

#[test]
fn the_page_reads_what_is_written() {
    let mut types = Declarations::default();
    types.add::<DeviceJson>();
    types.add::<DeviceReplayJson>();
    committed("viewer/src/source/generated/report.ts", &(HEAD.to_owned() + &types.text()));
}
