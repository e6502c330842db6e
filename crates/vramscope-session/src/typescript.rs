//! Generates the TypeScript types of the requests that the page sends.

use vramscope_testing::{Declarations, committed};

use crate::{DiffRequest, ReplayRequest, ReportRequest};

const HEAD: &str = "// Written by the tests of crates/vramscope-session from the structs in src/requests: `INSTA_UPDATE=always cargo test -p
// vramscope-session`.
";

#[test]
fn the_page_sends_what_is_read() {
    let mut types = Declarations::default();
    types.add::<ReportRequest>();
    types.add::<ReplayRequest>();
    types.add::<DiffRequest>();
    committed("viewer/src/source/generated/requests.ts", &(HEAD.to_owned() + &types.text()));
}
