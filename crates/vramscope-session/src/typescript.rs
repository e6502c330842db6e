//! Generates the TypeScript types of the requests that the page sends.

use ts_rs::{Config, TS};
use vramscope_testing::{committed, typescript};

use crate::{DiffRequest, ReplayRequest, ReportRequest};

const HEAD: &str = "// Written by the tests of crates/vramscope-session from the structs in src/requests: `INSTA_UPDATE=always cargo test -p
// vramscope-session`.
";

fn declared<T: TS>() -> String {
    let config = Config::default().with_large_int("number");
    typescript(T::docs().as_deref(), &T::decl(&config))
}

#[test]
fn the_page_sends_what_is_read() {
    let types = [declared::<ReportRequest>(), declared::<ReplayRequest>(), declared::<DiffRequest>()];
    committed("viewer/src/source/generated/requests.ts", &(HEAD.to_owned() + &types.concat()));
}
