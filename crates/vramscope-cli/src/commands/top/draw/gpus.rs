//! The GPUs and their processes, one line each.

use ratatui::style::Stylize as _;
use ratatui::text::Line;
use vramscope::profiler::{DeviceMemory, DeviceMemorySource, GpuProcess, NvmlDevice, SourceError};
use vramscope::report::{Shown, bytes, fit, fit_end, share};

/// Limit on the columns of a bar.
const MOST_BAR: usize = 40;
/// Limit on the columns of a name.
const MOST_NAME: usize = 24;

/// Returns at most `most` lines, but at least one.
pub(super) fn lines(
    gpus: Option<&Result<Vec<NvmlDevice>, SourceError>>,
    width: usize,
    most: usize,
) -> Vec<Line<'static>> {
    let gpus = match gpus {
        None => return vec![Line::from("GPUs: not yet read")],
        Some(Err(e)) => {
            return vec![Line::from(fit_end(
                &format!("GPUs cannot be read: {}", Shown::of(&e.to_string())),
                width,
            ))];
        }
        Some(Ok(gpus)) if gpus.is_empty() => return vec![Line::from("No GPUs: NVML lists none")],
        Some(Ok(gpus)) => gpus,
    };
    let name_width =
        gpus.iter().map(|gpu| Shown::of(&gpu.name).chars().count()).max().unwrap_or(0).min(MOST_NAME);
    let mut lines = vec![Line::from("GPUs".bold())];
    let busy = gpus.iter().filter(|gpu| !gpu.processes.is_empty()).count();
    // All GPUs take precedence over processes.
    let with_processes = gpus.len() + busy < most;
    for gpu in gpus {
        lines.push(Line::from(of_gpu(gpu, name_width, width)));
        if with_processes && !gpu.processes.is_empty() {
            lines.push(Line::from(fit_end(&format!("      {}", of_processes(&gpu.processes)), width)));
        }
    }
    if lines.len() > most && most > 0 {
        let left_out = lines.len() - most + 1;
        lines.truncate(most - 1);
        lines.push(Line::from(format!("  … and {left_out} more")));
    }
    lines
}

fn of_gpu(gpu: &NvmlDevice, name_width: usize, width: usize) -> String {
    let name = format!("{:>3} {:<name_width$}", gpu.index, fit(&Shown::of(&gpu.name), name_width));
    let DeviceMemory { used, total, source, .. } = gpu.memory;
    let share = share(used, total);
    // The name of a MIG instance says that it is one.
    let host = if source == DeviceMemorySource::Meminfo { "  /proc/meminfo" } else { "" };
    let said = format!("{:>10} of {:>10} {share:>6}{host}", bytes(used), bytes(total));
    let bar = bar(used, total, width.saturating_sub(name_width + 4 + said.len() + 4).min(MOST_BAR));
    fit_end(&format!("{name}  {bar}  {said}"), width)
}

fn bar(part: u64, whole: u64, width: usize) -> String {
    let share = if whole == 0 { 0.0 } else { (part as f64 / whole as f64).min(1.0) };
    let full = (share * width as f64).round() as usize;
    format!("{}{}", "█".repeat(full), "░".repeat(width - full))
}

fn of_processes(processes: &[GpuProcess]) -> String {
    let mut processes: Vec<&GpuProcess> = processes.iter().collect();
    processes.sort_by_key(|p| (std::cmp::Reverse(p.used), p.pid));
    let words = processes.iter().map(|p| match p.used {
        Some(used) => format!("process {} {}", p.pid, bytes(used)),
        None => format!("process {} (bytes unknown)", p.pid),
    });
    words.collect::<Vec<_>>().join(", ")
}
