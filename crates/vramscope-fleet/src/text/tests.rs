use std::collections::BTreeMap;

use regex::Regex;
use vramscope_testing::fleet::{JobPlan, base};
use vramscope_trace::formats::read;

use super::*;
use crate::naming::Rank;
use crate::rows::RankRow;
use crate::summarize::summarize;
use crate::summary::DeviceUsed;

/// Returns a fleet with every kind of problem and long names.
fn fleet() -> Fleet {
    let folder = tempfile::tempdir().unwrap();
    let plan = JobPlan::new(16, 3);
    plan.write(folder.path(), &base());
    let rows = (0..16).map(|number| {
        let file = std::fs::File::open(folder.path().join(plan.file(number))).unwrap();
        let read = read(file).map_err(|e| e.to_string());
        let mut summary = read.and_then(|recording| summarize(&recording));
        if let Ok(summary) = &mut summary {
            for held in &mut summary.lines.top {
                held.name = format!("{}/{}", "a_folder/".repeat(20), held.name);
            }
            if let Some(oom) = &mut summary.oom {
                oom.line = Some(format!("{}train.py:7 step", "a_folder/".repeat(20)));
            }
            let (time_us, total_bytes) = (7, 80 << 30);
            let (used_bytes, rest_bytes) = (79 << 30, (number as i64) << 20);
            summary.device_use = Some(DeviceUsed { time_us, used_bytes, total_bytes, rest_bytes });
            if number > 12 {
                summary.release = "2.15".to_owned();
            }
        }
        let rank = Rank {
            number: 3 * number,
            host: Some(format!("host-{}", number / 8)),
            groups: BTreeMap::from([("pp".to_owned(), number / 2)]),
        };
        RankRow {
            rank,
            file: format!("{}rank{number}.pickle", "folder/ ".repeat(20)),
            summary: summary.map(Box::new),
        }
    });
    Fleet::of(rows.collect(), Some(1 << 36))
}

#[test]
fn no_line_is_wider_than_a_terminal() {
    let fleet = fleet();
    let paths = ["/some/where/".repeat(30)];
    let verdicts = crate::Budgets { max_peak: Some(1), max_imbalance_percent: Some(1.0) }.verdicts(&fleet);
    let answers = FleetAnswers {
        paths: &paths,
        rule: "the number",
        notes: &[],
        fleet: &fleet,
        verdicts: &verdicts,
        advice: Advice::default(),
    };
    let styles = Regex::new("\u{1b}\\[[0-9;]*m").unwrap();
    for width in [80, 100, 160] {
        let text = fleet_text(&answers, width);
        let text = styles.replace_all(&text, "");
        for line in text.lines() {
            assert!(line.chars().count() <= width, "{width}: {line}");
        }
        for row in ["\n  device used   79.00 GiB ", "\n  Device used is the driver's count"] {
            assert!(text.contains(row), "{row}: {text}");
        }
        for heading in [
            "Budgets",
            "Peaks of 13 ranks",
            "3 kinds: ",
            "Imbalance",
            "Out of memory: 2",
            "Leak suspects: 1",
            "Not read: 3",
            "Differences between",
        ] {
            assert!(text.contains(&format!("\n{heading}")), "{heading}: {text}");
        }
    }
}
