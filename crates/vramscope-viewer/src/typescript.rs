//! Generates the TypeScript types of what the server answers beside questions.

use vramscope_testing::{Declarations, committed};

use crate::notes::Note;
use crate::ranks::Ranks;
use crate::server::source::{Source, SourceQuery};
use crate::server::sql::{SqlAnswer, SqlQuery, SqlTables};

const HEAD: &str = "// Written by the tests of crates/vramscope-viewer from its structs: `INSTA_UPDATE=always cargo test -p vramscope-viewer`.
";

#[test]
fn the_page_reads_what_is_answered() {
    let mut types = Declarations::default();
    types.add::<Note>();
    types.add::<Ranks<'_>>();
    types.add::<SourceQuery>();
    types.add::<Source>();
    types.add::<SqlQuery>();
    types.add::<SqlTables>();
    types.add::<SqlAnswer>();
    committed("viewer/src/source/generated/server.ts", &(HEAD.to_owned() + &types.text()));
}
