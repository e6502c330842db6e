//! The command line.

use clap::{Parser, Subcommand};

use crate::commands::attach::AttachArgs;
use crate::commands::check::CheckArgs;
use crate::commands::cluster::{FleetExecutorArgs, FleetSchedulerArgs};
use crate::commands::completions::CompletionsArgs;
use crate::commands::diff::DiffArgs;
use crate::commands::dump::DumpArgs;
use crate::commands::export::{ExportArgs, convert::ConvertArgs};
use crate::commands::fit::FitArgs;
use crate::commands::fleet::FleetArgs;
use crate::commands::info::InfoArgs;
use crate::commands::mcp::McpArgs;
use crate::commands::monitor::MonitorArgs;
use crate::commands::phantom::PhantomArgs;
use crate::commands::plan::PlanArgs;
use crate::commands::query::QueryArgs;
use crate::commands::replay::ReplayArgs;
use crate::commands::report::ReportArgs;
use crate::commands::run::args::RunArgs;
use crate::commands::split::SplitArgs;
use crate::commands::top::args::TopArgs;
use crate::commands::view::ViewArgs;

/// See, explain and fix GPU memory.
#[derive(Debug, Parser)]
#[command(name = "vramscope", version, arg_required_else_help = true, term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Report(ReportArgs),
    Check(CheckArgs),
    Diff(DiffArgs),
    Replay(ReplayArgs),
    Plan(PlanArgs),
    View(ViewArgs),
    Export(ExportArgs),
    Convert(ConvertArgs),
    Split(SplitArgs),
    Fleet(FleetArgs),
    Query(QueryArgs),
    FleetScheduler(FleetSchedulerArgs),
    FleetExecutor(FleetExecutorArgs),
    Run(RunArgs),
    Attach(AttachArgs),
    Dump(DumpArgs),
    Monitor(MonitorArgs),
    Top(TopArgs),
    Phantom(PhantomArgs),
    Fit(FitArgs),
    Info(InfoArgs),
    Mcp(McpArgs),
    Completions(CompletionsArgs),
}

#[cfg(test)]
mod tests {
    use clap::{Arg, Command, CommandFactory as _};
    use vramscope::analysis::Growth;
    use vramscope::trace::Category;

    use super::*;
    use crate::commands::monitor::AlertArg;
    use vramscope::session::values;

    /// Texts with their sizes in bytes; `None` for texts that are not sizes.
    fn sizes() -> Vec<(&'static str, Option<u64>)> {
        let lines = include_str!("../../vramscope-basics/sizes.txt").lines();
        let rows = lines.filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once('|'));
        rows.map(|(text, bytes)| (text, bytes.parse().ok())).collect()
    }

    /// Collects the options of a command and its subcommands that take a size, named as `replay --capacity`.
    fn size_options(command: &Command, found: &mut Vec<(String, Arg)>) {
        let is_size = |arg: &&Arg| arg.get_value_names().is_some_and(|names| names[0] == "SIZE");
        let name = |arg: &Arg| format!("{} --{}", command.get_name(), arg.get_id());
        found.extend(command.get_arguments().filter(is_size).map(|arg| (name(arg), arg.clone())));
        command.get_subcommands().for_each(|below| size_options(below, found));
    }

    #[test]
    fn every_option_reads_the_same_sizes() {
        let mut options = Vec::new();
        size_options(&Cli::command(), &mut options);
        assert!(options.len() > 10, "{options:?}");
        for (name, option) in options {
            let alone = Arg::new("size").long("size").value_parser(option.get_value_parser().clone());
            let command = Command::new("test").arg(alone);
            for (text, bytes) in sizes() {
                let read = command.clone().try_get_matches_from(["test", &format!("--size={text}")]);
                let read = read.ok().and_then(|matches| matches.get_one::<u64>("size").copied());
                assert_eq!(read, bytes, "{name} {text}");
            }
        }
    }

    #[test]
    fn options_with_a_size_inside_read_the_same_sizes() {
        for (text, bytes) in sizes() {
            let limit = values::category_limit(&format!("activation={text}")).ok();
            assert_eq!(limit, bytes.map(|bytes| (Category::Activation, bytes)), "{text}");
            let grown = values::growth(text).ok();
            assert_eq!(grown, bytes.map(Growth::Bytes), "{text}");
            let alert = format!("hidden={text}").parse::<AlertArg>().ok();
            assert_eq!(alert.map(|AlertArg(of)| of.above), bytes.map(|bytes| bytes as f64), "{text}");
        }
    }
}
