use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::*;

#[test]
fn a_socket_folder_that_others_can_access_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("vramscope");
    DirBuilder::new().mode(0o700).create(&path).unwrap();
    assert!(check(&path).is_ok());
    fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).unwrap();
    let said = check(&path).unwrap_err().to_string();
    let shown = path.display();
    assert_eq!(said, format!("{shown}: is open to other users (mode 750); run `chmod 700 {shown}`"));
    // The root folder belongs to root; a link may point anywhere.
    if user() != 0 {
        assert!(matches!(check(Path::new("/")), Err(LiveError::OthersFolder { owner: 0, .. })));
    }
    let link = folder.path().join("link");
    symlink(&path, &link).unwrap();
    assert!(matches!(check(&link), Err(LiveError::NotAFolder(_))));
    if let Ok(()) = std::os::unix::fs::chown(&path, Some(12345), None) {
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        let said = check(&path).unwrap_err().to_string();
        assert!(said.starts_with(&format!("{shown}: belongs to user 12345; ")), "{said}");
    }
}

#[test]
fn a_name_that_another_user_has_taken_is_gone_round() {
    let folder = tempfile::tempdir().unwrap();
    let taken = folder.path().join("vramscope-1");
    fs::write(&taken, "").unwrap();
    // A folder that other users may enter is refused, like another user's folder.
    let fake = folder.path().join("vramscope-1-0000");
    DirBuilder::new().mode(0o755).create(&fake).unwrap();
    fs::set_permissions(&fake, fs::Permissions::from_mode(0o755)).unwrap();
    symlink(folder.path(), folder.path().join("vramscope-1-0001")).unwrap();
    let own = own_name(&taken).unwrap();
    assert_eq!(fs::metadata(&own).unwrap().mode() & 0o7777, 0o700);
    assert_eq!(own_name(&taken).unwrap(), own);
    assert_eq!(own_names(&taken), [own]);
}

#[test]
fn sockets_are_listed_by_name_and_a_folder_that_is_not_there_has_none() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(list(&folder.path().join("none")).unwrap(), Vec::<PathBuf>::new());
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
    for name in ["7.sock", "12.sock", "notes.txt"] {
        fs::write(folder.path().join(name), "").unwrap();
    }
    let names = ["12.sock", "7.sock"].map(|name| folder.path().join(name));
    assert_eq!(list(folder.path()).unwrap(), names);
}
