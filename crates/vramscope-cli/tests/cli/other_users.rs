//! Attacks by another user of the machine on the command's files. The tests run as root, which can become the other user.
#![cfg(target_os = "linux")]

use std::fs::{self, File};
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _, PermissionsExt as _, lchown, symlink};
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;
use vramscope_testing::skip;

use crate::{root, run};

/// The other user; a member of this user's group in tests with a umask of 002.
const OTHER: u32 = 65534;

/// A folder like `/tmp`; `None` if the user is not root, because only root can become another user.
fn shared(mode: u32) -> Option<TempDir> {
    let folder = tempfile::tempdir().unwrap();
    if lchown(folder.path(), None, None).is_err() || !is_root() {
        skip("root", "two users take root");
        return None;
    }
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).unwrap();
    Some(folder)
}

fn is_root() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    status.lines().any(|line| line.split_whitespace().take(3).eq(["Uid:", "0", "0"]))
}

/// The command with a umask, and with its temporary files in `temporary`.
fn with_umask(umask: &str, temporary: &Path, args: &[&str]) -> Output {
    Command::new("sh")
        .args(["-c", &format!("umask {umask}; exec \"$@\""), "sh", env!("CARGO_BIN_EXE_vramscope")])
        .args(args)
        .current_dir(root())
        .env("TMPDIR", temporary)
        .env_remove("PYTHONPATH")
        .output()
        .unwrap()
}

/// Runs these commands as the other user, a member of this user's group; prints each command that succeeds.
fn attack(commands: &[&str]) -> String {
    let tried: Vec<String> =
        commands.iter().map(|command| format!("({command}) >&- 2>&- && echo \"done: {command}\"")).collect();
    format!(
        "export LD_PRELOAD=; setpriv --reuid={OTHER} --regid=0 --clear-groups sh -c '{}'; exit 0",
        tried.join("; ")
    )
}

#[test]
fn other_users_cannot_change_the_python_code_of_vramscope_run() {
    let Some(temporary) = shared(0o1777) else { return };
    for umask in ["000", "002", "022"] {
        let program = format!(
            "P=${{PYTHONPATH%%:*}}; export P; test -r $P/sitecustomize.py && echo there; {}",
            attack(&["echo print > $P/sitecustomize.py", "echo > $P/new.py", "ls $P", "mv $P $P.moved"])
        );
        let record = temporary.path().join("run.pickle");
        let output = with_umask(
            umask,
            temporary.path(),
            &["run", "--record", record.to_str().unwrap(), "--", "sh", "-c", &program],
        );
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "there\n", "{umask}");
    }
}

#[test]
fn other_users_cannot_access_the_files_of_a_phantom_run() {
    let Some(temporary) = shared(0o1777) else { return };
    for umask in ["000", "002", "022"] {
        let program = format!(
            "R=$VRAMSCOPE_RECORDINGS; P=${{PYTHONPATH%%:*}}; L=${{LD_LIBRARY_PATH%%:*}}; export R P L; \
             test -r $L/libcuda.so.1 && echo there >&2; {} >&2",
            attack(&[
                "echo print > $P/sitecustomize.py",
                "echo > $L/libcuda.so.1",
                "echo > $L/state",
                "ls $R",
                "echo > $R/1.json",
            ])
        );
        let output = with_umask(
            umask,
            temporary.path(),
            &["phantom", "run", "--gpu", "rtx4090", "--once", "--", "sh", "-c", &program],
        );
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("there\n") && !said.contains("done:"), "{umask}: {said}");
    }
}

#[test]
fn a_folder_for_temporary_files_in_which_others_can_rename_is_refused() {
    let Some(temporary) = shared(0o777) else { return };
    let record = temporary.path().join("run.pickle");
    for args in [
        &["run", "--record", record.to_str().unwrap(), "--", "true"][..],
        &["phantom", "run", "--gpu", "rtx4090", "--", "true"],
    ] {
        let output = with_umask("022", temporary.path(), args);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains("other users can replace files in it"), "{args:?}: {said}");
    }
}

#[test]
fn an_output_never_follows_a_link_of_another_user() {
    let Some(folder) = shared(0o777) else { return };
    let [target, link] = ["own.txt", "out.csv"].map(|name| folder.path().join(name));
    fs::write(&target, "mine").unwrap();
    symlink(&target, &link).unwrap();
    lchown(&link, Some(OTHER), Some(OTHER)).unwrap();
    let output = run(&["export", "examples/oom.pickle", "-o", link.to_str().unwrap()]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("is a link owned by user 65534; links of other users are not followed"), "{said}");
    assert_eq!(fs::read(&target).unwrap(), b"mine");
}

/// Creates a named pipe of the other user that all users can write to.
fn pipe_of_another_user(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    fs::set_permissions(path, fs::Permissions::from_mode(0o666)).unwrap();
    lchown(path, Some(OTHER), Some(OTHER)).unwrap();
}

/// The command, ended with exit code 124 after a minute.
fn run_or_time_out(args: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new("timeout");
    command.args(["60", env!("CARGO_BIN_EXE_vramscope")]).args(args).current_dir(root());
    let output = command.output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn outputs_are_not_written_into_pipes_of_other_users() {
    let Some(folder) = shared(0o1777) else { return };
    let [pipe, link] = ["out.csv", "link.csv"].map(|name| folder.path().join(name));
    pipe_of_another_user(&pipe);
    symlink(&pipe, &link).unwrap();
    let process = std::process::id().to_string();
    for has_reader in [false, true] {
        // A pipe that is opened for reading and writing does not wait for a writer.
        let mut options = File::options();
        options.read(true).write(true).custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
        let mut reader = has_reader.then(|| options.open(&pipe).unwrap());
        for out in [&pipe, &link].map(|path| path.to_str().unwrap()) {
            for args in [
                &["export", "examples/oom.pickle", "-o", out][..],
                &["view", "examples/oom.pickle", "--html", out],
                &["check", "examples/oom.pickle", "--no-oom", "--junit", out],
                &["plan", "examples/training.pickle.zst", "-o", out],
                &["fleet", "examples/oom.pickle", "--no-cache", "--max-peak", "80GiB", "--junit", out],
                &["monitor", &process, "--duration", "0.1", "-o", out],
            ] {
                let (code, said) = run_or_time_out(args);
                assert_eq!(code, Some(2), "{args:?}: {said}");
                assert!(said.contains("is a named pipe owned by user 65534"), "{args:?}: {said}");
            }
        }
        let nothing = reader.as_mut().map(|reader| reader.read(&mut [0]).unwrap_err().kind());
        assert_eq!(nothing, has_reader.then_some(ErrorKind::WouldBlock));
    }
}

/// A log is written in place, so its former owner could read it.
#[test]
fn logs_are_not_written_into_files_of_other_users() {
    let Some(folder) = shared(0o1777) else { return };
    let log = folder.path().join("run.jsonl");
    fs::write(&log, "").unwrap();
    fs::set_permissions(&log, fs::Permissions::from_mode(0o666)).unwrap();
    lchown(&log, Some(OTHER), Some(OTHER)).unwrap();
    let process = std::process::id().to_string();
    let (code, said) =
        run_or_time_out(&["monitor", &process, "--duration", "0.1", "-o", log.to_str().unwrap()]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("belongs to user 65534"), "{said}");
    assert_eq!(fs::read(&log).unwrap(), b"");
}

/// Another user swaps pipes, links and files under the names of outputs, 1,000 times for each mode of the folder.
#[test]
#[ignore = "takes long: ./test --slow"]
fn attacks_on_outputs_achieve_nothing() {
    if !is_root() {
        return skip("root", "two users take root");
    }
    let program = root().join("crates/vramscope-files/programs/attack.py");
    let mut command = Command::new("python3");
    let output = command.arg(program).arg(env!("CARGO_BIN_EXE_vramscope")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(3) {
        return skip("root", &said);
    }
    let achieved = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{achieved}{said}");
    assert_eq!(achieved.matches(": 1000 runs in ").count(), 2, "{achieved}");
}

/// PYTHONPATH is split at colons, so the recorder in a folder with a colon would not be found.
#[test]
fn run_refuses_a_temporary_folder_with_a_colon() {
    let folder = tempfile::tempdir().unwrap();
    let temporary = folder.path().join("a:b");
    fs::create_dir(&temporary).unwrap();
    fs::set_permissions(&temporary, fs::Permissions::from_mode(0o700)).unwrap();
    let record = folder.path().join("run.pickle");
    let output = with_umask("022", &temporary, &["run", "--record", record.to_str().unwrap(), "--", "true"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    let expected = format!("error: {} contains a colon", temporary.display());
    assert!(said.starts_with(&expected) && said.lines().count() == 1, "{said}");
}

#[test]
fn an_output_never_replaces_what_it_is_made_of() {
    let folder = tempfile::tempdir().unwrap();
    let [file, hard, soft] = ["run.pickle", "run.csv", "run.html"].map(|name| folder.path().join(name));
    fs::copy(root().join("examples/oom.pickle"), &file).unwrap();
    fs::hard_link(&file, &hard).unwrap();
    symlink(&file, &soft).unwrap();
    let before = fs::read(&file).unwrap();
    let [file, hard, soft] = [&file, &hard, &soft].map(|path| path.to_str().unwrap());
    for args in [
        &["export", file, "-o", hard][..],
        &["export", file, "--format", "csv", "-o", file],
        &["check", file, "--no-oom", "--junit", file],
        &["check", "examples/oom.pickle", "--baseline", file, "--junit", soft],
        &["view", file, "--html", soft],
        &["fleet", file, "--no-cache", "--max-peak", "80GiB", "--junit", hard],
    ] {
        let output = run(args);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains("is also an input file; choose another output file"), "{args:?}: {said}");
        assert_eq!(fs::read(file).unwrap(), before, "{args:?}");
    }
}

#[test]
fn pipes_stay_pipes() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe.csv");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || fs::read(pipe).unwrap()
    });
    let output = run(&["export", "examples/oom.pickle", "-o", pipe.to_str().unwrap()]);
    assert!(output.status.success());
    assert!(!reader.join().unwrap().is_empty());
    assert!(fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo());
}

/// The library would run in it with its rights, and the log would have its memory.
#[test]
fn processes_of_other_users_are_not_recorded() {
    let Some(folder) = shared(0o777) else { return };
    let user = OTHER.to_string();
    let mut command = Command::new("setpriv");
    let mut child = command.args(["--reuid", &user, "--clear-groups", "sleep", "60"]).spawn().unwrap();
    let pid = child.id().to_string();
    let is_other = || {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        status.contains(&format!("Uid:\t{user}"))
    };
    while !is_other() {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    let log = folder.path().join("run.vramscope");
    let output = run(&["attach", &pid, "--record", log.to_str().unwrap()]);
    child.kill().unwrap();
    child.wait().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert_eq!(said, format!("error: process {pid} belongs to user {OTHER}: run vramscope as this user\n"));
    assert!(!log.exists());
}

/// Compiles a C program in a folder in which the other user may run it.
fn compile(folder: &Path, name: &str, source: &str) -> String {
    let [program, text] = [name.to_owned(), format!("{name}.c")].map(|name| folder.join(name));
    fs::write(&text, source).unwrap();
    let status = Command::new("cc").args(["-w", "-o"]).args([&program, &text]).status().unwrap();
    assert!(status.success());
    program.to_str().unwrap().to_owned()
}

/// A program that has a file of a folder mapped, which looks like a recorder's, and another one that answers as a recorder there.
const MAPS: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
int main(int count, char **words) {
    char name[4096];
    mkdir(words[1], 0700);
    snprintf(name, sizeof name, "%s/libvramscope_recorder.so", words[1]);
    int file = open(name, O_RDWR | O_CREAT, 0600);
    if (ftruncate(file, 4096) || mmap(0, 4096, PROT_READ, MAP_SHARED, file, 0) == MAP_FAILED) return 1;
    if (count > 2) unlink(name), rmdir(words[1]);
    puts("mapped"), fflush(stdout);
    pause();
}"#;
const ANSWERS: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
int main(int count, char **words) {
    struct sockaddr_un at = { AF_UNIX };
    mkdir(words[1], 0755), chdir(words[1]), strcpy(at.sun_path, "control");
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    if (bind(listener, (void *)&at, sizeof at) || listen(listener, 9)) return 1;
    puts("listens"), fflush(stdout);
    for (;;) {
        char request[4096] = { 0 }, answer[4096], head[64];
        int client = accept(listener, 0, 0);
        read(client, request, sizeof request - 1);
        FILE *asked = fopen(words[3], "a");
        fputs(request, asked), fclose(asked);
        // The list of earlier releases had the path of a copy for each process.
        int size = sprintf(answer, "%s%c%c%s%c", words[2], 0, 0, words[4], 0);
        if (strncmp(request, "processes", 9)) size = sprintf(answer, "%s%cthe other user's text", words[4], 0);
        write(client, head, sprintf(head, "ok %d\n", size)), write(client, answer, size), close(client);
    }
}"#;

/// A child that is killed at the end of a test.
struct Killed(std::process::Child);

impl Drop for Killed {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Starts a program, as the other user if `is_other`, and waits for its line.
fn started(is_other: bool, command: &[&str]) -> Killed {
    let other = OTHER.to_string();
    let prefix = ["setpriv", "--reuid", &other, "--clear-groups"];
    let words: Vec<&str> =
        if is_other { prefix.iter().chain(command).copied().collect() } else { command.to_vec() };
    let mut child =
        Command::new(words[0]).args(&words[1..]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut line = [0; 4];
    child.stdout.as_mut().unwrap().read_exact(&mut line).unwrap();
    Killed(child)
}

/// The process of another user chooses the names of its mapped files, and answers what it likes.
#[test]
fn a_dump_of_another_users_process_writes_no_file_that_it_names() {
    let Some(folder) = shared(0o1777) else { return };
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (maps, answers) = (compile(folder.path(), "maps", MAPS), compile(folder.path(), "answers", ANSWERS));
    let (fake, own) = (path("vramscope-recorder-0"), path("own"));
    fs::create_dir(&own).unwrap();
    fs::set_permissions(&own, fs::Permissions::from_mode(0o700)).unwrap();
    let victim = format!("{own}/authorized_keys");
    let recorded = started(true, &[&maps, &fake]);
    let pid = recorded.0.id().to_string();
    let _recorder = started(true, &[&answers, &fake, &pid, &path("asked"), &victim]);
    let output = run(&["dump", &pid]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert_eq!(fs::read_dir(&own).unwrap().count(), 0);
    // Where root names a file, it gets the bytes of the other user, and nothing else is written.
    run(&["dump", &pid, "-o", &path("named.vramscope")]);
    assert_eq!(fs::read_dir(&own).unwrap().count(), 0);
}

/// A process keeps the library of a recorder that has ended. Another user makes its folder anew.
#[test]
fn a_recorders_folder_that_another_user_made_anew_gets_no_request() {
    let Some(folder) = shared(0o1777) else { return };
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (maps, answers) = (compile(folder.path(), "maps", MAPS), compile(folder.path(), "answers", ANSWERS));
    let (former, asked) = (path("vramscope-recorder-0"), path("asked"));
    let recorded = started(false, &[&maps, &former, "remove"]);
    let pid = recorded.0.id().to_string();
    let _recorder = started(true, &[&answers, &former, &pid, &asked, &path("run.vramscope")]);
    let said = String::from_utf8(run(&["dump", &pid]).stderr).unwrap();
    assert!(said.starts_with(&format!("error: process {pid} is not recorded to a log")), "{said}");
    assert!(!Path::new(&asked).exists() && !Path::new(&path("run.vramscope")).exists());
}

/// The name of a file in memory leads to a pipe. Earlier releases opened it, and waited for its writer.
#[test]
fn a_pipe_behind_a_name_in_shared_memory_stops_no_run() {
    let Some(folder) = shared(0o1777) else { return };
    let hostile = folder.path().join("hostile");
    fs::create_dir(&hostile).unwrap();
    let name = format!("vramscope{}", hostile.join("rings/1-0").to_str().unwrap().replace('/', ":"));
    let ring = Path::new("/dev/shm").join(name);
    fs::write(&ring, "").unwrap();
    for name in ["reader", "lock"] {
        let pipe = hostile.join(name);
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        lchown(&pipe, Some(OTHER), Some(OTHER)).unwrap();
    }
    for file in [&ring, &hostile] {
        lchown(file, Some(OTHER), Some(OTHER)).unwrap();
    }
    let log = folder.path().join("run.vramscope");
    let output = Command::new("timeout")
        .args(["20", env!("CARGO_BIN_EXE_vramscope"), "run", "--record", log.to_str().unwrap(), "--", "true"])
        .output();
    fs::remove_file(&ring).unwrap();
    assert_eq!(output.unwrap().status.code(), Some(0));
}
