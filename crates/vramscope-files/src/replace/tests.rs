use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _, lchown, symlink};
use std::path::PathBuf;

use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::*;

fn replacement(path: &Path) -> Replacement {
    match Target::open(path).unwrap() {
        Target::Replacement(new) => new,
        Target::Special(_) => panic!("{} is not a special file", path.display()),
    }
}

fn names(folder: &Path) -> Vec<OsString> {
    let mut names: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    names
}

#[test]
fn the_former_file_stays_until_the_new_one_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out");
    fs::write(&path, "old").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let new = replacement(&path);
    new.file().write_all(b"new").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"old");
    drop(new);
    assert_eq!(names(folder.path()), ["out"]);
    let new = replacement(&path);
    new.file().write_all(b"new").unwrap();
    new.finish().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o640);
    assert_eq!(names(folder.path()), ["out"]);
}

#[test]
fn a_link_that_is_planted_while_a_file_is_written_is_replaced_and_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let [path, other] = ["out", "other"].map(|name| folder.path().join(name));
    fs::write(&other, "untouched").unwrap();
    let new = replacement(&path);
    new.file().write_all(b"new").unwrap();
    symlink(&other, &path).unwrap();
    new.finish().unwrap();
    assert_eq!(fs::read(&other).unwrap(), b"untouched");
    assert!(fs::symlink_metadata(&path).unwrap().is_file());
}

#[test]
fn a_link_of_the_user_is_followed_and_its_target_replaced() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("deep")).unwrap();
    let [link, file] = ["link", "deep/file"].map(|name| folder.path().join(name));
    fs::write(&file, "old").unwrap();
    symlink("deep/file", &link).unwrap();
    replacement(&link).finish().unwrap();
    assert_eq!(fs::read(&file).unwrap(), b"");
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(names(&folder.path().join("deep")), ["file"]);
}

#[test]
fn pipes_and_devices_are_written_to_and_stay() {
    let folder = tempfile::tempdir().unwrap();
    let pipe: PathBuf = folder.path().join("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    std::thread::scope(|threads| {
        let reader = threads.spawn(|| {
            let mut text = String::new();
            File::open(&pipe).unwrap().read_to_string(&mut text).unwrap();
            text
        });
        match Target::open(&pipe).unwrap() {
            Target::Special(mut out) => out.write_all(b"text").unwrap(),
            Target::Replacement(_) => panic!("a pipe is not a regular file"),
        }
        assert_eq!(reader.join().unwrap(), "text");
    });
    assert!(fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo());
    assert!(matches!(Target::open(Path::new("/dev/null")).unwrap(), Target::Special(_)));
    assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
}

#[test]
fn a_pipe_is_opened_when_its_reader_comes() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    std::thread::scope(|threads| {
        let writer = threads.spawn(|| {
            let Target::Special(mut out) = Target::open(&pipe).unwrap() else { panic!("a pipe") };
            // More than a pipe holds: writes wait for the reader.
            out.write_all(&[b'x'; 1 << 20]).unwrap();
        });
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(!writer.is_finished());
        assert_eq!(fs::read(&pipe).unwrap().len(), 1 << 20);
        writer.join().unwrap();
    });
}

#[test]
fn pipes_of_other_users_are_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let [pipe, link] = ["pipe", "link"].map(|name| folder.path().join(name));
    mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
    symlink("pipe", &link).unwrap();
    // Only root can change the owner of a file.
    if lchown(&pipe, Some(12345), None).is_err() {
        return;
    }
    for path in [&pipe, &link] {
        let target = Target::open(path).unwrap_err();
        assert_eq!(target.kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(
            target.to_string(),
            "is a named pipe owned by user 12345; pipes and devices of other users are not written to"
        );
        assert_eq!(crate::open_log(path).unwrap_err().to_string(), target.to_string());
    }
}

/// In such a folder, all users can rename all files.
#[test]
fn a_file_that_is_replaced_before_its_end_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let [path, other, moved] = ["out", "other", "moved"].map(|name| folder.path().join(name));
    for is_link in [true, false] {
        fs::write(&path, "old").unwrap();
        fs::write(&other, "untouched").unwrap();
        let new = replacement(&path);
        new.file().write_all(b"new").unwrap();
        let part = folder.path().join(&new.part.name);
        fs::rename(&part, &moved).unwrap();
        if is_link {
            symlink(&other, &part).unwrap();
        } else {
            fs::write(&part, "wrong").unwrap();
        }
        assert_eq!(new.finish().unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read(&other).unwrap(), b"untouched");
        fs::remove_file(&moved).unwrap();
    }
    let new = replacement(&path);
    new.file().write_all(b"new").unwrap();
    new.finish().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new");
}

#[test]
fn one_file_has_many_names() {
    let folder = tempfile::tempdir().unwrap();
    let [file, hard, soft, other] = ["file", "hard", "soft", "other"].map(|name| folder.path().join(name));
    fs::write(&file, "").unwrap();
    fs::write(&other, "").unwrap();
    fs::hard_link(&file, &hard).unwrap();
    symlink("file", &soft).unwrap();
    assert!(crate::is_same_file(&file, &hard) && crate::is_same_file(&soft, &file));
    assert!(!crate::is_same_file(&file, &other));
    assert!(!crate::is_same_file(&folder.path().join("none"), &folder.path().join("none")));
}
