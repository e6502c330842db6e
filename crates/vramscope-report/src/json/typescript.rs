//! The TypeScript types of reports and replays for the page of `vramscope view`.

use vramscope_testing::{committed, declared};

use super::fragmentation::{FragmentationJson, FragmentationsJson, FreeBlockJson, UnusableJson, WhyJson};
use super::holders::{CategoryJson, ChurnJson, HolderJson, ReasonJson};
use super::leaks::LeakJson;
use super::libraries::LibraryJson;
use super::oom::{CauseJson, OomJson, PinJson};
use super::quality::QualityJson;
use super::regions::{RegionJson, RunJson};
use super::replay::{
    DeviceReplayJson, DivergenceJson, FloorsJson, GpuJson, NearestJson, OutcomeJson, RecordedJson,
    ReplayOomJson, ReplayedJson, SideJson, TriedJson,
};
use super::report::{AtJson, BestSettingJson, DeviceJson, RemedyJson};
use super::stacks::FrameJson;
use super::steps::{StepJson, StepsJson};

const HEAD: &str = "// Written by the tests of crates/vramscope-report from the structs in src/json: `INSTA_UPDATE=always cargo test -p
// vramscope-report`. docs/json.md describes the keys.
";

#[test]
fn the_page_reads_what_is_written() {
    let types = [
        declared::<DeviceJson>(),
        declared::<AtJson>(),
        declared::<HolderJson>(),
        declared::<CategoryJson>(),
        declared::<ReasonJson>(),
        declared::<FrameJson>(),
        declared::<OomJson>(),
        declared::<CauseJson>(),
        declared::<PinJson>(),
        declared::<BestSettingJson>(),
        declared::<RemedyJson>(),
        declared::<UnusableJson>(),
        declared::<WhyJson>(),
        declared::<FreeBlockJson>(),
        declared::<LeakJson>(),
        declared::<LibraryJson>(),
        declared::<FragmentationsJson>(),
        declared::<FragmentationJson>(),
        declared::<StepsJson>(),
        declared::<StepJson>(),
        declared::<RegionJson>(),
        declared::<RunJson>(),
        declared::<ChurnJson>(),
        declared::<QualityJson>(),
        declared::<DeviceReplayJson>(),
        declared::<RecordedJson>(),
        declared::<ReplayedJson>(),
        declared::<OutcomeJson>(),
        declared::<ReplayOomJson>(),
        declared::<TriedJson>(),
        declared::<FloorsJson>(),
        declared::<DivergenceJson>(),
        declared::<SideJson>(),
        declared::<GpuJson>(),
        declared::<NearestJson>(),
    ];
    committed("viewer/src/source/generated/report.ts", &(HEAD.to_owned() + &types.concat()));
}
