use datafusion::arrow::datatypes::Schema;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion_proto::physical_plan::DefaultPhysicalProtoConverter;
use vramscope_fleet::{Rank, RankFile, RecordingPlace, Stored};

use super::*;
use crate::provider::{Of, Tasks};
use crate::reading::ReadingOptions;
use crate::scan::Wanted;
use crate::tables::SqlTable;

fn recordings() -> Vec<RankFile> {
    let rank = |number| Rank { number, host: Some("a\"\u{1b}".to_owned()), ..Rank::default() };
    let stored = Stored {
        address: "s3://b/ü".to_owned(),
        length: u64::MAX,
        modified_ns: -1,
        version: "\"v\"".to_owned(),
    };
    vec![
        RankFile { rank: rank(0), place: RecordingPlace::Here("run s/0.pickle".into()), length: 7 },
        RankFile { rank: rank(u64::MAX), place: RecordingPlace::Stored(stored), length: u64::MAX / 4 },
    ]
}

#[test]
fn a_scan_is_the_same_on_another_machine() {
    let reading = ReadingOptions { expanded_bytes: Some(u64::MAX), no_cache: true };
    for (table, columns) in [(SqlTable::Events, vec![0, 5, 2]), (SqlTable::Summary, vec![])] {
        let scan = ScanData {
            wanted: Wanted { table, columns, reading, at_once: 3 },
            groups: vec![vec![recordings()], vec![], vec![vec![], recordings()]],
            limit: Some(9),
        };
        let plan = scan.clone().plan(Arc::default(), Says::default()).unwrap();
        assert_eq!(plan.properties().partitioning.partition_count(), 3);
        let mut bytes = Vec::new();
        let (codec, converter) = (Codec::new(Says::default()), DefaultPhysicalProtoConverter {});
        PhysicalExtensionCodec::try_encode(&codec, plan.clone(), &mut bytes, &converter).unwrap();
        let context = TaskContext::default();
        let read = PhysicalExtensionCodec::try_decode(&codec, &bytes, &[], &context, &converter).unwrap();
        assert_eq!(ScanData::of(&*read), Some(scan));
        assert_eq!(read.schema(), plan.schema());
    }
}

#[test]
fn a_table_is_the_same_on_another_machine() {
    let of = Of {
        table: SqlTable::Holders,
        recordings: recordings(),
        tasks: Tasks::AtOnce(4),
        reading: ReadingOptions::default(),
    };
    let (name, codec) = (TableReference::bare("holders"), Codec::new(Says::default()));
    let table = Arc::new(Recordings::new(of.clone(), Arc::default(), Says::default()));
    let mut bytes = Vec::new();
    codec.try_encode_table_provider(&name, table.clone(), &mut bytes).unwrap();
    let context = TaskContext::default();
    let read = codec.try_decode_table_provider(&bytes, &name, table.schema(), &context).unwrap();
    assert_eq!((&*read as &dyn Any).downcast_ref::<Recordings>().unwrap().of, of);
}

#[test]
fn other_plans_are_decoded_by_ballista_and_damaged_ones_are_errors() {
    let (codec, converter) = (Codec::new(Says::default()), DefaultPhysicalProtoConverter {});
    let theirs: Arc<dyn ExecutionPlan> = Arc::new(EmptyExec::new(Arc::new(Schema::empty())));
    assert!(ScanData::of(&*theirs).is_none());
    let context = TaskContext::default();
    for bytes in [b"".as_slice(), b"vramscope 1 ", b"vramscope 1 {\"wanted\": 3}", b"vramscope 2 {}"] {
        assert!(PhysicalExtensionCodec::try_decode(&codec, bytes, &[], &context, &converter).is_err());
    }
}
