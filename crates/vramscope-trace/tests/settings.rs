//! Writes the table of settings in the book.

use std::fmt::Write as _;

use vramscope_testing::committed;
use vramscope_trace::{SettingKind, TorchSetting, TorchSettings};

const INTRODUCTION: &str = "# Settings of the allocator

All settings of PyTorch's allocator that vramscope reads from recordings and from `PYTORCH_CUDA_ALLOC_CONF`. The first column is
the key in `PYTORCH_CUDA_ALLOC_CONF`, where sizes are whole MiB. [`vramscope replay`](replay.md) accepts the same keys in `--conf`
and `--sweep`, and rejects what the replayed release of PyTorch would reject. The second column is the key in a snapshot's
`allocator_settings`, where sizes are bytes. If a setting is in both places, the snapshot's value is used.

The column \"known\" has the first release of PyTorch that accepts the key of the first column, or writes the key of the second. If it
is empty, all examined releases do. A test writes this page from `crates/vramscope-trace/src/settings/table.rs`.
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
        ("Settings that affect the placement of blocks in device memory", true),
        ("Settings that do not affect the placement of blocks in device memory", false),
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

/// Each key belongs to one setting.
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
