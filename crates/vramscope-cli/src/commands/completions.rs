//! `vramscope completions`

use clap::CommandFactory as _;

use crate::args::{Cli, CompletionsArgs};

pub(crate) fn run(args: &CompletionsArgs) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "vramscope", &mut script);
    let script = String::from_utf8(script)?;
    if args.json {
        return super::print_json(&serde_json::json!({ "shell": args.shell.to_string(), "script": script }));
    }
    super::print_text(&script)
}
