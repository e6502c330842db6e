use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;

use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::*;

fn folder() -> (tempfile::TempDir, Dir) {
    let folder = tempfile::tempdir().unwrap();
    let dir = Dir::open(folder.path()).unwrap();
    (folder, dir)
}

#[test]
fn links_pipes_sockets_and_folders_are_not_read_in_place_of_a_file() {
    let (folder, dir) = folder();
    fs::write(folder.path().join("file"), "text").unwrap();
    symlink("file", folder.path().join("link")).unwrap();
    symlink("/dev/zero", folder.path().join("zero")).unwrap();
    mknodat(CWD, folder.path().join("pipe"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let _socket = UnixListener::bind(folder.path().join("socket")).unwrap();
    fs::create_dir(folder.path().join("folder")).unwrap();
    assert_eq!(dir.read_file("file".as_ref(), 4).unwrap(), b"text");
    for name in ["link", "zero", "pipe", "socket", "folder", "none"] {
        assert!(dir.read_file(name.as_ref(), 100).is_err(), "{name}");
        if name != "none" {
            assert!(dir.create_new(name.as_ref(), 0o666).is_err(), "{name}");
        }
    }
    assert_eq!(dir.read_file("file".as_ref(), 3).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
}

#[test]
fn a_sparse_file_is_refused_by_its_length() {
    let (folder, dir) = folder();
    fs::File::create(folder.path().join("sparse")).unwrap().set_len(9 << 30).unwrap();
    let said = dir.read_file("sparse".as_ref(), 1 << 20).unwrap_err();
    assert_eq!(said.kind(), io::ErrorKind::FileTooLarge);
}

#[test]
fn names_outside_the_folder_are_refused() {
    let (_folder, dir) = folder();
    for name in ["", ".", "..", "/etc/passwd", "a/b", "a/", "../a"] {
        assert!(dir.create_new(name.as_ref(), 0o600).is_err(), "{name}");
        assert!(dir.open_file(name.as_ref()).is_err(), "{name}");
        assert!(dir.subdir(name.as_ref()).is_err(), "{name}");
        assert!(dir.make_subdir(name.as_ref(), 0o700).is_err(), "{name}");
        assert!(dir.remove_file(name.as_ref()).is_err(), "{name}");
        assert!(dir.rename(name.as_ref(), "x".as_ref()).is_err(), "{name}");
    }
}

#[test]
fn a_link_is_no_folder() {
    let (folder, dir) = folder();
    fs::create_dir(folder.path().join("real")).unwrap();
    symlink("real", folder.path().join("link")).unwrap();
    assert!(dir.subdir("real".as_ref()).is_ok());
    assert!(dir.subdir("link".as_ref()).is_err());
    assert!(dir.make_subdir("link".as_ref(), 0o700).is_err());
    assert!(Dir::open(&folder.path().join("link")).is_ok());
    assert!(Dir::open_no_follow(&folder.path().join("link")).is_err());
}

#[test]
fn a_folder_stays_the_one_that_was_opened() {
    let (folder, _) = folder();
    let path = folder.path().join("mine");
    fs::create_dir(&path).unwrap();
    let dir = Dir::open(&path).unwrap();
    fs::rename(&path, folder.path().join("moved")).unwrap();
    fs::create_dir(&path).unwrap();
    dir.write_new("file".as_ref(), b"text").unwrap();
    assert_eq!(fs::read(folder.path().join("moved/file")).unwrap(), b"text");
    assert!(!path.join("file").exists());
    assert_eq!(dir.names().unwrap(), ["file"]);
}

#[test]
fn the_access_of_a_folder_follows_from_its_mode() {
    let (folder, dir) = folder();
    for (mode, is_private, others_write, others_replace) in [
        (0o700, true, false, false),
        (0o755, false, false, false),
        (0o775, false, true, true),
        (0o1777, false, true, false),
    ] {
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).unwrap();
        let access = dir.access().unwrap();
        assert!(access.is_mine() && access.is_mine_or_roots());
        let found = (access.is_private(), access.others_can_write(), access.others_can_replace());
        assert_eq!(found, (is_private, others_write, others_replace), "{mode:o}");
    }
}

#[test]
fn a_link_of_another_user_leads_nowhere() {
    let (folder, _) = folder();
    let link = folder.path().join("link");
    symlink("target", &link).unwrap();
    assert!(matches!(locate(&link).unwrap(), Place::Name(_, name) if name == "target"));
    // Only root can change the owner of a link.
    if std::os::unix::fs::lchown(&link, Some(12345), None).is_ok() {
        let said = locate(&link).unwrap_err();
        assert_eq!(said.kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(said.to_string(), "is a link owned by user 12345; links of other users are not followed");
    }
    symlink("loop", folder.path().join("loop")).unwrap();
    assert!(locate(&folder.path().join("loop")).is_err());
}
