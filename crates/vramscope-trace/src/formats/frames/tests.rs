use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn unpacked(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    Frames::new(bytes)?.read_to_end(&mut out)?;
    Ok(out)
}

fn packed_at(level: i32, bytes: &[u8]) -> Vec<u8> {
    let mut encoder = zstd::Encoder::new(Vec::new(), level).unwrap();
    encoder.include_checksum(true).unwrap();
    io::Write::write_all(&mut encoder, bytes).unwrap();
    encoder.finish().unwrap()
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    packed_at(3, bytes)
}

/// Returns the bytes that are neither random nor constant.
fn some(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i * i / 7 % 251) as u8).collect()
}

#[test]
fn frames_follow_each_other_and_some_are_skipped() {
    let (first, second) = (some(1_000_000), some(300));
    let skipped = [&0x184d_2a53_u32.to_le_bytes()[..], &5_u32.to_le_bytes(), b"notes"].concat();
    let all = [&packed(&first)[..], &skipped, &packed(b""), &packed(&second)].concat();
    assert_eq!(unpacked(&all).unwrap(), [first, second].concat());
    assert_eq!(unpacked(b"").unwrap(), b"");
}

#[test]
fn windows_of_all_levels_of_zstd_are_read() {
    let packed = |log: u32| {
        let mut encoder = zstd::Encoder::new(Vec::new(), 3).unwrap();
        encoder.window_log(log).unwrap();
        encoder.long_distance_matching(true).unwrap();
        io::Write::write_all(&mut encoder, &some(3_000_000)).unwrap();
        encoder.finish().unwrap()
    };
    assert_eq!(unpacked(&packed(27)).unwrap(), some(3_000_000));
    unpacked(&packed(28)).unwrap_err();
}

proptest! {
    /// The C library is the reference: this decoder accepts valid and modified data only if the C library accepts it, with the same
    /// result.
    #[test]
    fn the_library_of_c_reads_the_same(
        seed in any::<[u8; 32]>(),
        length in 0..50_000usize,
        level in 1..20i32,
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        let bytes: Vec<u8> = (0..length).map(|i| seed[i * i / 7 % 32] ^ (i / 999) as u8).collect();
        let mut packed = packed_at(level, &bytes);
        prop_assert_eq!(unpacked(&packed).unwrap(), bytes);
        for (at, with) in changes {
            let at = at.index(packed.len());
            packed[at] ^= with;
        }
        if let Ok(ours) = unpacked(&packed) {
            prop_assert!(ours == zstd::decode_all(&packed[..]).unwrap());
        }
    }
}

#[test]
fn cut_and_changed_frames_are_errors() {
    let whole = packed(&some(100_000));
    for length in (1..whole.len()).step_by(997) {
        unpacked(&whole[..length]).unwrap_err();
    }
    for at in (0..whole.len()).step_by(991) {
        let mut changed = whole.clone();
        changed[at] ^= 1;
        assert!(unpacked(&changed).is_err_and(|e| !e.to_string().is_empty()), "byte {at}");
    }
}
