//! The program `vramscope`.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(vramscope_cli::run(std::env::args_os().collect()))
}
