//! `vramscope info`

use vramscope::analysis::RecordingFacts;
use vramscope::report::{InfoJson, info};

use crate::args::InfoArgs;
use crate::input;

pub(crate) fn run(args: &InfoArgs) -> anyhow::Result<()> {
    let recording = input::read(&args.file, args.reading.options())?;
    let name = input::name(&args.file);
    let facts = RecordingFacts::of(&recording.trace);
    if args.json {
        super::print_json(&InfoJson::new(&name, &recording, &facts))
    } else {
        super::print_text(&info(&name, &recording, &facts))
    }
}
