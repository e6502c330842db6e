use proptest::prelude::*;

use super::*;

fn files(names: &[&str]) -> Vec<Candidate> {
    names
        .iter()
        .map(|name| Candidate { name: (*name).to_owned(), told: None, length: 1, modified_ns: 0 })
        .collect()
}

/// The numbers in the order of the files, and the rule.
fn numbers(names: &[&str]) -> (Vec<u64>, String) {
    let found = ranks(&files(names), None).unwrap();
    let mut numbers: Vec<(usize, u64)> = found.files.iter().map(|(rank, at)| (*at, rank.number)).collect();
    numbers.sort_unstable();
    (numbers.into_iter().map(|(_, number)| number).collect(), found.rule)
}

#[test]
fn ranks_are_found_as_people_write_them() {
    let rank = "the number after \"rank\" in the names of the files";
    let folder = "the number in the names of their folders";
    for (names, expected, rule) in [
        (["rank3.pickle", "rank11.pickle"], [3, 11], rank),
        (["run/rank_03.pickle.zst", "run/rank_11.pickle.zst"], [3, 11], rank),
        (["rank-3.json.gz", "rank-11.json.gz"], [3, 11], rank),
        (["Rank3.pickle", "Rank4.pickle"], [3, 4], rank),
        (["rank.3.pickle", "rank.4.pickle"], [3, 4], rank),
        (["_3.pickle", "_4.pickle"], [3, 4], "the number in the names of the files"),
        (
            ["snapshot_3.pickle", "snapshot_4.pickle"],
            [3, 4],
            "the number after \"snapshot\" in the names of the files",
        ),
        (["r3.pickle", "r4.pickle"], [3, 4], "the number after \"r\" in the names of the files"),
        (["host-a/3/s.pickle", "host-b/4/s.pickle"], [3, 4], folder),
        (["0/memory.pickle", "1/memory.pickle"], [0, 1], folder),
        // A common date, a differing time and process ID, a step, a size.
        (
            ["2024-01-02/a_0_1704190000.pickle", "2024-01-02/a_1_1704190007.pickle"],
            [0, 1],
            "the number after \"a\" in the names of the files",
        ),
        (["rank0_step100.pickle", "rank1_step90.pickle"], [0, 1], rank),
        (
            ["run7-rank3-of-8.pickle", "run7-rank5-of-8.pickle"],
            [3, 5],
            "the number after \"rank\" in the names of the files",
        ),
        // The number of a group is not a rank.
        (["tp_rank_1_rank_4.pickle", "tp_rank_0_rank_7.pickle"], [4, 7], rank),
        // The host also has a number.
        (["host-03/rank_0017.pickle", "host-04/rank_0033.pickle"], [17, 33], rank),
    ] {
        assert_eq!(numbers(&names), (expected.to_vec(), rule.to_owned()), "{names:?}");
    }
}

#[test]
fn hosts_and_groups_follow_from_file_names() {
    let found =
        ranks(&files(&["host-a/tp1_pp0_rank3.pickle", "host-b/tp=0,pp=2,rank=4.pickle"]), None).unwrap();
    let told: Vec<_> =
        found.files.iter().map(|(r, _)| (r.host.clone().unwrap(), r.groups["tp"], r.groups["pp"])).collect();
    assert_eq!(told, [("host-a".to_owned(), 1, 0), ("host-b".to_owned(), 0, 2)]);
    for (path, host) in [
        ("node7/rank1.pickle", Some("node7")),
        ("rank1_node_7.pickle", Some("node_7")),
        ("hostname=gpu-1_rank3.pickle", Some("hostname=gpu-1")),
        ("runs/hostile.pickle", None),
    ] {
        assert_eq!(meanings::host(path).as_deref(), host, "{path}");
    }
}

#[test]
fn ranks_that_are_numbered_for_each_host_continue_across_hosts() {
    let (found, rule) = numbers(&[
        "host-2/rank0.pickle",
        "host-2/rank1.pickle",
        "host-10/rank0.pickle",
        "host-10/rank1.pickle",
    ]);
    assert_eq!(found, [0, 1, 2, 3]);
    assert!(rule.ends_with("counted on from host to host in the order of their names"), "{rule}");
    assert_eq!(numbers(&["node1/gpu0.pickle", "node1/gpu1.pickle", "node2/gpu0.pickle"]).0, [0, 1, 2]);
    assert_eq!(numbers(&["gpu0.pickle", "gpu3.pickle"]).0, [0, 3]);
}

#[test]
fn ranks_without_numbers_follow_the_order_of_their_groups() {
    let (found, rule) = numbers(&["tp0_pp1.pickle", "tp1_pp1.pickle", "tp0_pp0.pickle", "tp1_pp0.pickle"]);
    assert_eq!(found, [2, 3, 0, 1]);
    assert!(rule.starts_with("the order of their groups"), "{rule}");
}

#[test]
fn the_newer_of_two_files_of_a_rank_counts() {
    let mut two = files(&["a/rank3.pickle", "b/rank3.pickle", "b/rank4.pickle"]);
    two[0].modified_ns = 7;
    let found = ranks(&two, None).unwrap();
    assert_eq!(found.files.iter().map(|(_, at)| *at).collect::<Vec<_>>(), [0, 2]);
    assert_eq!(
        found.notes,
        ["rank 3 has two files: a/rank3.pickle is used, because it is newer than b/rank3.pickle"]
    );
}

#[test]
fn recorded_ranks_win_over_file_names() {
    let mut three = files(&["a/dump_7_1/snapshot.pickle", "a/dump_7_2/snapshot.pickle", "a/rank0.pickle"]);
    three[0].told = Some(5);
    three[1].told = Some(2);
    let found = ranks(&three, None).unwrap();
    let told: Vec<_> = found.files.iter().map(|(rank, at)| (rank.number, *at)).collect();
    assert_eq!(told, [(2, 1), (5, 0)]);
    assert_eq!(found.rule, "their launcher's variables in environment.json next to them");
    assert_eq!(found.notes, ["1 file is left out, because it has no rank there: a/rank0.pickle"]);
    let pattern = Regex::new(r"dump_7_(\d)").unwrap();
    let found = ranks(&three, Some(&pattern)).unwrap();
    assert_eq!(found.files.iter().map(|(rank, at)| (rank.number, *at)).collect::<Vec<_>>(), [(1, 0), (2, 1)]);
}

#[test]
fn files_without_a_rank_are_named() {
    let found = ranks(&files(&["rank0.pickle", "rank1.pickle", "baseline.pickle"]), None).unwrap();
    assert_eq!(found.notes, ["1 file is left out, because it has no rank there: baseline.pickle"]);
    let none = ranks(&files(&["a.pickle", "b.pickle"]), None).unwrap_err().to_string();
    assert!(
        none.starts_with(
            "no rank in the names of 2 files, for example a.pickle: expected a number that differs"
        ),
        "{none}"
    );
    assert_eq!(numbers(&["snapshot.pickle"]), (vec![0], "being the only file".to_owned()));
    let pattern = Regex::new(r"gpu(\d+)").unwrap();
    let found = ranks(&files(&["gpu7-rank1.pickle", "x.pickle"]), Some(&pattern)).unwrap();
    assert_eq!((found.files[0].0.number, found.rule.as_str(), found.notes.len()), (7, r"--rank gpu(\d+)", 1));
    let none = ranks(&files(&["a.pickle"]), Some(&pattern)).unwrap_err().to_string();
    assert_eq!(none, r"--rank gpu(\d+) matches no number in 1 file, for example a.pickle");
}

proptest! {
    /// Ranks do not depend on the order of files.
    #[test]
    fn the_order_of_names_makes_no_difference(
        names in prop::collection::btree_set("(host-[ab]/)?(rank|r|gpu|x|tp)?[_-]?[0-9]{1,2}(_pp[01])?[.]pickle", 1..20)
            .prop_map(|names| names.into_iter().collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let of = |names: &[String]| {
            let candidates = files(&names.iter().map(String::as_str).collect::<Vec<_>>());
            ranks(&candidates, None).map(|found| {
                let told = found.files.into_iter().map(|(rank, at)| (rank, names[at].clone()));
                (told.collect::<Vec<_>>(), found.rule)
            })
        };
        let mut sorted = names.clone();
        sorted.sort();
        prop_assert_eq!(of(&names).ok(), of(&sorted).ok());
    }
}
