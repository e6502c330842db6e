//! The table of settings, as the book shows it.

use std::fmt::Write as _;

use vramscope_testing::committed;
use vramscope_trace::{SettingKind, TorchSetting, TorchSettings};

const INTRODUCTION: &str = "# Settings of the allocator

Every setting of PyTorch's allocator that is read from recordings and from `PYTORCH_CUDA_ALLOC_CONF`, and what it does.
The first column is its key in `PYTORCH_CUDA_ALLOC_CONF`, where sizes are whole MiB. [`vramscope replay`](replay.md) takes the same
keys with `--conf` and `--sweep`, and refuses what the release of PyTorch that it follows would refuse. The second column is its
key in a snapshot's `allocator_settings`, where sizes are bytes. A setting that stands in both places is taken from the snapshot's.

The column \"known\" says since which release PyTorch takes the key of the first column, or writes that of the second. Where it is
empty, all releases that were looked at do. This page is written by a test, from
`crates/vramscope-trace/src/settings/table.rs`.
";

fn value(setting: &TorchSetting) -> &'static str {
    match setting.kind {
        SettingKind::Bytes => "MiB",
        SettingKind::Number => "a number",
        SettingKind::Fraction => "0 to 1",
        SettingKind::Truth => "`True`, `False`",
        SettingKind::Divisions => "`4`, or `[256:1,512:2,>:8]`",
        SettingKind::Word => "a word",
    }
}

#[test]
fn the_book_shows_the_table() {
    let mut page = INTRODUCTION.to_owned();
    for (title, decides) in [
        ("What decides where blocks of device memory lie", true),
        ("What has no effect on where blocks of device memory lie", false),
    ] {
        write!(
            page,
            "\n## {title}\n\n| key | in a snapshot | value | known | what it does |\n|---|---|---|---|---|\n"
        )
        .unwrap();
        for setting in TorchSettings::ALL.iter().filter(|setting| setting.decides == decides) {
            let code = |key: Option<&str>| key.map_or("-".to_owned(), |key| format!("`{key}`"));
            let known = setting.since.map(|release| format!("since {release}"));
            let seen = setting.recorded_since.map(|release| format!("in snapshots of {release} and later"));
            let known = known.or(seen).unwrap_or_default();
            let (conf, recorded) = (code(setting.conf), code(setting.recorded));
            let about = setting.about.trim();
            writeln!(page, "| {conf} | {recorded} | {} | {known} | {about} |", value(setting)).unwrap();
        }
    }
    committed("docs/settings.md", &page);
}

/// Recordings name the keys of their dictionary in the order in which PyTorch writes them; each stands there once.
#[test]
fn keys_are_of_one_setting() {
    for keys in [
        TorchSettings::ALL.iter().filter_map(|s| s.conf).collect::<Vec<_>>(),
        TorchSettings::ALL.iter().filter_map(|s| s.recorded).collect(),
    ] {
        let mut once = keys.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), keys.len());
    }
}
