use super::*;

/// Returns the matching paths relative to `folder`.
fn names(folder: &Path, pattern: &str) -> Vec<String> {
    let found = matches(&format!("{}/{pattern}", folder.display()), MOST_FOLDERS).unwrap().unwrap();
    found.iter().map(|path| path.strip_prefix(folder).unwrap().display().to_string()).collect()
}

#[test]
fn patterns_match_as_in_a_shell() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a/rank0", "a/b/rank1", "a/b/c/rank2", ".hidden/rank3", "a/.rank4", "rank5"] {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }
    for (pattern, expected) in [
        ("**/rank*", &["a/b/c/rank2", "a/b/rank1", "a/rank0", "rank5"][..]),
        ("**/**/rank?", &["a/b/c/rank2", "a/b/rank1", "a/rank0", "rank5"]),
        ("*/rank[0-9]", &["a/rank0"]),
        ("a/**/b/rank*", &["a/b/rank1"]),
        ("a/**/c/../rank*", &["a/b/c/../rank1"]),
        (".h*/rank*", &[".hidden/rank3"]),
        ("a/.*", &["a/.rank4"]),
        ("a*/", &["a"]),
        ("rank*/", &[]),
        ("a/**", &["a", "a/b", "a/b/c"]),
        ("*/none", &[]),
    ] {
        assert_eq!(names(folder.path(), pattern), expected, "{pattern}");
    }
    assert!(matches("rank0", MOST_FOLDERS).is_none());
    assert!(matches("rank[", MOST_FOLDERS).is_none());
}

#[test]
#[cfg(unix)]
fn links_to_folders_are_followed_by_name_and_not_by_two_stars() {
    use std::os::unix::fs::symlink;

    let folder = tempfile::tempdir().unwrap();
    for link in ["one", "two"] {
        symlink(".", folder.path().join(link)).unwrap();
    }
    fs::write(folder.path().join("rank0"), "").unwrap();
    assert_eq!(names(folder.path(), "**/rank*"), ["rank0"]);
    assert_eq!(names(folder.path(), "*/rank*"), ["one/rank0", "two/rank0"]);
    // Each level of links doubles the number of folders.
    let deep = format!("{}/{}rank*", folder.path().display(), "*/".repeat(30));
    assert!(matches(&deep, 1000).unwrap().is_err());
}
