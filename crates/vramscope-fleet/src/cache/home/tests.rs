use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::time::SystemTime;

use super::*;

const FILE: &str = "a.summaries";

fn home(base: &Path) -> Home {
    Home::in_folder(base).unwrap()
}

fn write(home: &Home, text: &str) {
    home.write(FILE, |out| out.write_all(text.as_bytes())).unwrap();
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Returns the permission bits of a file or folder.
fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn only_the_user_can_read_and_write() {
    let base = tempfile::tempdir().unwrap();
    let home = home(&base.path().join("cache"));
    assert_eq!(home.read(FILE), Ok(Vec::new()));
    write(&home, "one");
    write(&home, "two");
    assert_eq!(home.read(FILE), Ok(b"two".to_vec()));
    let modes = [home.path().parent().unwrap(), home.path(), &home.path().join(FILE)].map(mode);
    assert_eq!(modes, [0o700, 0o700, 0o600]);
    assert_eq!(home.dir.names().unwrap(), [FILE]);
}

#[test]
fn files_and_folders_that_others_can_write_to_are_not_used() {
    let base = tempfile::tempdir().unwrap();
    let home = home(base.path());
    write(&home, "x");
    let file = home.path().join(FILE);
    for open in [0o666, 0o620, 0o602] {
        set_mode(&file, open);
        let why = home.read(FILE).unwrap_err();
        assert_eq!(why, format!("{}: other users can write to it", file.display()));
    }
    // Saving replaces the file.
    write(&home, "y");
    assert_eq!((home.read(FILE), mode(&file)), (Ok(b"y".to_vec()), 0o600));
    for folder in [home.path(), home.path().parent().unwrap()] {
        set_mode(folder, 0o777);
        let why = Home::in_folder(base.path()).unwrap_err();
        assert_eq!(why, format!("{}: other users can write to it", folder.display()));
        set_mode(folder, 0o700);
    }
}

#[test]
fn files_and_folders_of_another_user_are_not_used() {
    const ANOTHER: u32 = 65534;
    let base = tempfile::tempdir().unwrap();
    let home = home(base.path());
    write(&home, "x");
    let file = home.path().join(FILE);
    if chown(&file, Some(ANOTHER), None).is_err() {
        return vramscope_testing::skip("root", "only root gives files to other users");
    }
    assert_eq!(home.read(FILE).unwrap_err(), format!("{}: {OF_ANOTHER}", file.display()));
    for folder in [home.path(), home.path().parent().unwrap(), base.path()] {
        chown(folder, Some(ANOTHER), None).unwrap();
        let why = Home::in_folder(base.path()).unwrap_err();
        assert_eq!(why, format!("{}: {OF_ANOTHER}", folder.display()));
        chown(folder, Some(0), None).unwrap();
    }
}

#[test]
fn links_and_pipes_are_neither_followed_nor_waited_for() {
    let base = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    let home = home(base.path());
    let victim = outside.path().join("victim.json");
    fs::write(&victim, "of others").unwrap();
    symlink(&victim, home.path().join(FILE)).unwrap();
    assert_eq!(home.read(FILE), Ok(Vec::new()));
    write(&home, "x");
    assert_eq!(home.read(FILE), Ok(b"x".to_vec()));
    assert_eq!(fs::read(&victim).unwrap(), b"of others");
    fs::remove_file(home.path().join(FILE)).unwrap();
    let made = std::process::Command::new("mkfifo").arg(home.path().join(FILE)).status().unwrap();
    assert!(made.success());
    assert_eq!(home.read(FILE), Ok(Vec::new()));
    write(&home, "y");
    assert_eq!(home.read(FILE), Ok(b"y".to_vec()));
    fs::remove_dir_all(home.path()).unwrap();
    symlink(outside.path(), home.path()).unwrap();
    assert!(Home::in_folder(base.path()).is_err());
}

#[test]
fn old_files_of_ours_are_removed() {
    let base = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    let home = home(base.path());
    let aged = |path: &Path, age: Duration| {
        let file = fs::File::create(path).unwrap();
        file.set_modified(SystemTime::now() - age).unwrap();
    };
    let at = |name: &str| home.path().join(name);
    aged(&at("summaries-0.part"), ABANDONED * 2);
    aged(&at("summaries-1.part"), ABANDONED / 2);
    aged(&at("notes.part"), OLD * 2);
    aged(&at("old.summaries"), OLD * 2);
    aged(&at("new.summaries"), OLD / 2);
    aged(&outside.path().join("x"), OLD * 2);
    symlink(outside.path().join("x"), at("link.summaries")).unwrap();
    home.forget_old();
    let mut names = home.dir.names().unwrap();
    names.sort();
    assert_eq!(names, ["link.summaries", "new.summaries", "notes.part", "summaries-1.part"]);
    assert!(outside.path().join("x").exists());
}
