use super::*;

#[test]
fn folders_patterns_and_files() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for dir in ["host-a", "host-b", ".hidden"] {
        fs::create_dir(at(dir)).unwrap();
    }
    for name in [
        "host-a/rank0.pickle",
        "host-a/rank1.JSON.gz",
        "host-b/rank2.pkl.zst",
        "host-b/rank3.sqlite",
        "host-b/log.csv",
        "host-b/notes.txt",
        "host-b/.rank9.pickle",
        ".hidden/rank3.pickle",
    ] {
        fs::write(at(name), "x").unwrap();
    }
    let names = |paths: &[PathBuf]| {
        let found = list(paths).unwrap().files.into_iter();
        found
            .map(|(path, _)| path.strip_prefix(folder.path()).unwrap().display().to_string())
            .collect::<Vec<_>>()
    };
    let all = ["host-a/rank0.pickle", "host-a/rank1.JSON.gz", "host-b/rank2.pkl.zst", "host-b/rank3.sqlite"];
    assert_eq!(names(&[folder.path().to_owned()]), all);
    assert_eq!(names(&[at("host-a"), at("host-a/rank0.pickle")]), all[..2]);
    assert_eq!(names(&[at("*/rank[12]*")]), all[1..3]);
    assert_eq!(names(&[at("host-b/*.csv")]), ["host-b/log.csv"]);
    assert_eq!(names(&[at("host-b/notes.txt")]), ["host-b/notes.txt"]);
    for dir in ["dump_1", "dump_2"] {
        fs::create_dir(at(dir)).unwrap();
        fs::write(at(dir).join("manifest.json"), "{}").unwrap();
        fs::write(at(dir).join("environment.json"), r#"{"variables": {"RANK": "4"}}"#).unwrap();
    }
    fs::write(at("dump_1/snapshot.pickle"), "x").unwrap();
    assert!(
        !is_called_recording("s3://runs/dump_1/manifest.json")
            && is_called_recording("s3://runs/dump_1/rank0.json")
    );
    let left = list(&[at("dump_1"), at("dump_*")]).unwrap();
    assert_eq!(left.files.iter().map(|(_, file)| file.told).collect::<Vec<_>>(), [Some(4)]);
    let unrecorded =
        format!("{}: contains no snapshot.pickle, because no history was recorded", at("dump_2").display());
    assert_eq!(left.notes, [unrecorded]);
    assert_eq!(list(&[at("*/snapshot.pickle")]).unwrap().files, left.files);
    assert_eq!(list(&[at("host-a"), at("gone.pickle")]).unwrap().notes.len(), 1);
    assert_eq!(
        list(&[at("none*")]).unwrap_err().to_string(),
        format!(
            "no recording in {}: searched for files that end in .pickle, .pkl, .json, .vramscope, .sqlite, .prof, optionally followed by .gz or .zst; give other files by name",
            at("none*").display()
        )
    );
}
