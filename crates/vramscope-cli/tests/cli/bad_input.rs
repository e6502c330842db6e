//! Files that cannot be read: one exact line on stderr, exit code 2.

use std::path::Path;

use insta_cmd::assert_cmd_snapshot;

use crate::{root, vramscope};

/// Runs `report` on a file with these bytes.
fn report_on(name: &str, bytes: &[u8]) -> std::process::Command {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap().keep();
    std::fs::write(directory.join(name), bytes).unwrap();
    let mut command = vramscope(&["report", name]);
    command.current_dir(directory);
    command
}

#[test]
fn an_empty_file() {
    assert_cmd_snapshot!(report_on("empty.pickle", b""));
}

#[test]
fn text() {
    assert_cmd_snapshot!(report_on("notes.txt", b"CUDA out of memory. Tried to allocate 2.00 GiB"));
    assert_cmd_snapshot!(report_on("poem.txt", b"No error is here"));
}

#[test]
fn a_zip() {
    assert_cmd_snapshot!(report_on("model.pt", b"PK\x03\x04\x00\x00\x08\x08archive/data.pkl"));
}

#[test]
fn a_pickle_that_calls_os_system() {
    assert_cmd_snapshot!(report_on(
        "evil.pickle",
        b"\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c\x04true\x85R."
    ));
}

#[test]
fn a_memo_bomb() {
    let mut bomb = vec![0x80, 4, b']', 0x94];
    for i in 0..200u8 {
        bomb.extend([b']', 0x94, b'(']);
        bomb.extend([b'h', i].repeat(10));
        bomb.push(b'e');
    }
    bomb.push(b'.');
    assert!(bomb.len() < 8000);
    assert_cmd_snapshot!(report_on("bomb.pickle", &bomb));
}

#[test]
fn nesting_100_000_deep() {
    let lists = [b"\x80\x04".as_slice(), &b"](".repeat(100_000), &b"e".repeat(100_000), b"."].concat();
    assert_cmd_snapshot!(report_on("deep.pickle", &lists));
    let json = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert_cmd_snapshot!(report_on("deep.json", json.as_bytes()));
}

#[test]
fn a_length_of_2_to_the_60() {
    let claim = [b"\x80\x04\x8d".as_slice(), &(1u64 << 60).to_le_bytes(), b"x"].concat();
    assert_cmd_snapshot!(report_on("long.pickle", &claim));
}

#[test]
fn a_directory() {
    assert_cmd_snapshot!(vramscope(&["report", "examples"]));
}

#[test]
fn a_file_that_is_not_there() {
    assert_cmd_snapshot!(vramscope(&["report", "examples/none.pickle"]));
}

#[test]
#[cfg(unix)]
fn no_permission() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("secret.pickle");
    std::fs::write(&file, b"\x80\x04").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o000)).unwrap();
    // root can read every file, so another user runs the command and must have access to the program and the file.
    let program = directory.path().join("vramscope");
    std::fs::copy(env!("CARGO_BIN_EXE_vramscope"), &program).unwrap();
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = std::process::Command::new(program);
    command.args(["report", "secret.pickle"]).current_dir(directory.path());
    if std::fs::read(&file).is_ok() {
        use std::os::unix::process::CommandExt as _;
        command.uid(65534);
    }
    assert_cmd_snapshot!(command);
}

#[test]
fn a_pickle_that_is_not_a_snapshot() {
    assert_cmd_snapshot!(report_on("numbers.pickle", b"\x80\x04](K\x01K\x02K\x03e."));
}

#[test]
fn a_value_of_the_wrong_kind() {
    let text = r#"{"segments": [], "device_traces": [[{"action": "alloc", "addr": 512, "stream": 0}]]}"#;
    assert_cmd_snapshot!(report_on("cut.json", text.as_bytes()));
}

/// xorshift: the same offsets in every run.
fn offsets(length: usize, count: usize) -> Vec<usize> {
    let mut x = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x as usize % length
    };
    (0..count).map(|_| next()).collect()
}

#[test]
fn truncation_at_any_of_1000_offsets() {
    let whole = std::fs::read(root().join("examples/oom.pickle")).unwrap();
    let directory = tempfile::tempdir().unwrap();
    // Starting a process a thousand times is slow, so this calls the reader directly.
    for (i, offset) in offsets(whole.len() - 2, 1000).into_iter().enumerate() {
        let length = offset + 2;
        let expected = |message: &str| {
            let start = format!("the file ends at byte {length}, inside ");
            let end = ": it is truncated; copy or record it again";
            message.starts_with(&start) && message.ends_with(end) && !message.contains('\n')
        };
        let error = vramscope::trace::formats::read(&whole[..length]).unwrap_err().to_string();
        assert!(expected(&error), "{error}");
        if i % 50 == 0 {
            let file = directory.path().join("cut.pickle");
            std::fs::write(&file, &whole[..length]).unwrap();
            let output = vramscope(&["report", file.to_str().unwrap()]).output().unwrap();
            let stderr = String::from_utf8(output.stderr).unwrap();
            let message = stderr.strip_prefix(&format!("error: {}: ", file.display())).unwrap();
            assert_eq!(output.status.code(), Some(2));
            assert!(expected(message.trim_end()), "{stderr}");
            assert!(output.stdout.is_empty());
        }
    }
}

/// Peak memory stays within a small multiple of the file size, for any contents.
#[test]
#[cfg(target_os = "linux")]
fn memory_stays_bounded() {
    const MIB: usize = 1 << 20;
    let header = b"\x80\x04".as_slice();
    let cases: [(&str, Vec<u8>); 8] = [
        ("values that never close", [header, b"](", &b"N".repeat(8 * MIB)].concat()),
        (
            "a long list of nothing",
            [header, b"](", &[&b"N".repeat(999), b"e(".as_slice()].concat().repeat(8000)].concat(),
        ),
        ("a long list of numbers", [b"{\"a\": [0", b",0".repeat(4 * MIB).as_slice(), b"]}"].concat()),
        ("empty lists", [header, b"](", &b"]\x94".repeat(4 * MIB)].concat()),
        ("dropped lists in the memo", [header, &b"]\x940".repeat(3 * MIB)].concat()),
        ("one long string", [header, b"\x8d", &(16u64 << 20).to_le_bytes(), &vec![b'x'; 8 * MIB]].concat()),
        ("sparse memo", {
            let put =
                |i: u32| [b"Nr".as_slice(), &(i.wrapping_mul(0x9e37_79b1)).to_le_bytes(), b"0"].concat();
            [header, &(0..1_000_000).flat_map(put).collect::<Vec<u8>>()].concat()
        }),
        ("zeros, compressed a thousandfold", zstd_zeros()),
    ];
    for (name, bytes) in cases {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("case");
        std::fs::write(&file, &bytes).unwrap();
        let (code, peak) = peak_memory(&file);
        let allowed = 64 * MIB + 12 * bytes.len();
        assert_eq!(code, 2, "{name}");
        assert!(peak < allowed, "{name}: {} MiB for a file of {} MiB", peak / MIB, bytes.len() / MIB);
    }
}

/// A gibibyte of zeros in a JSON string.
#[cfg(target_os = "linux")]
fn zstd_zeros() -> Vec<u8> {
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    std::io::Write::write_all(&mut encoder, b"{\"segments\": \"").unwrap();
    let zeros = vec![b'0'; 1 << 20];
    for _ in 0..1024 {
        std::io::Write::write_all(&mut encoder, &zeros).unwrap();
    }
    encoder.finish().unwrap()
}

/// Exit code and peak resident bytes of a report on `file`, measured by the kernel.
#[cfg(target_os = "linux")]
fn peak_memory(file: &Path) -> (i32, usize) {
    let script = r#"
import os, resource, subprocess, sys
p = subprocess.run([sys.argv[1], "report", sys.argv[2]], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print(p.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)"#;
    let output = std::process::Command::new("python3")
        .args(["-c", script, env!("CARGO_BIN_EXE_vramscope")])
        .arg(file)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut numbers = text.split_whitespace().map(|n| n.parse::<usize>().unwrap());
    (numbers.next().unwrap() as i32, numbers.next().unwrap())
}

#[test]
fn max_expanded_allows_a_file_that_expands_beyond_the_limit() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap().keep();
    let spaces = " ".repeat(10 << 20);
    let snapshot = format!("{{\"segments\": [],{spaces}\"device_traces\": []{spaces}}}");
    std::fs::write(directory.join("spaces.json.zst"), zstd::encode_all(snapshot.as_bytes(), 1).unwrap())
        .unwrap();
    let info = |options: &[&str]| {
        let mut command = vramscope(&["info", "spaces.json.zst"]);
        command.args(options).current_dir(&directory);
        command.output().unwrap()
    };
    let refused = info(&[]);
    assert_eq!(refused.status.code(), Some(2));
    let error = String::from_utf8(refused.stderr).unwrap();
    assert!(error.contains("more than any recording does") && error.ends_with("--max-expanded\n"), "{error}");
    assert_eq!(info(&["--max-expanded", "10MiB"]).status.code(), Some(2));
    for limit in ["64MiB", "unlimited"] {
        assert!(info(&["--max-expanded", limit]).status.success(), "{limit}");
    }
}
