//! `vramscope top` and `vramscope monitor` with two phantom GPUs, so that every byte is known.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use vramscope::phantom::{PhantomGpu, PhantomMig, PhantomRun};
use vramscope_allocator::{CudaDevice, Device as _};
use vramscope_testing::{own_test, phantom_gpu, phantom_run, phantom_run_of};

use crate::top::{Home, Screen};
use crate::vramscope;

const MIB: u64 = 1 << 20;

/// The allocations of [`holder`]: GPU numbers, each followed by its MiB after a colon. Set only by the parent.
const HELD: &str = "VRAMSCOPE_TEST_HELD";

/// Holds memory until its input ends, which also happens when the parent ends.
#[test]
fn holder() {
    let Ok(held) = std::env::var(HELD) else { return };
    let held: Vec<(CudaDevice, u64)> = held
        .split(' ')
        .map(|of_gpu| {
            let (gpu, mib) = of_gpu.split_once(':').unwrap();
            let gpu = CudaDevice::open(gpu.parse().unwrap()).unwrap();
            let address = gpu.allocate(mib.parse::<u64>().unwrap() * MIB).unwrap();
            (gpu, address)
        })
        .collect();
    eprintln!("holding {}", held.len());
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

/// A program on a machine, killed at the end of the test.
struct Holder(Child);

impl Holder {
    /// Changes the program's allocations.
    fn start(machine: &PhantomRun, held: &str) -> Self {
        let child = own_test("gpus::holder")
            .envs(machine.environment())
            .env(HELD, held)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut holder = Self(child);
        let (mut said, mut stderr) = (String::new(), BufReader::new(holder.0.stderr.take().unwrap()));
        while !said.contains("holding") {
            assert!(stderr.read_line(&mut said).unwrap() > 0, "{said}");
        }
        holder
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Holder {
    /// Sends SIGKILL, so that the program cannot free anything.
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// The command on a machine without served programs.
fn on(machine: &PhantomRun, home: &Home, args: &[&str]) -> Command {
    let mut command = vramscope(args);
    command.envs(machine.environment()).env("XDG_RUNTIME_DIR", home.path());
    command
}

/// Its JSON answer, and its notes.
fn answer(command: &mut Command) -> (Value, String) {
    let output = command.arg("--json").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    (serde_json::from_slice(&output.stdout).unwrap(), said)
}

/// A GPU in the answer of `top`, with processes and their bytes.
fn gpu(index: usize, processes: &[(u32, u64)]) -> Value {
    let gpu = phantom_gpu(index);
    let used: u64 = processes.iter().map(|(_, bytes)| bytes).sum();
    let processes: Vec<Value> =
        processes.iter().map(|(pid, bytes)| json!({"pid": pid, "used_bytes": bytes})).collect();
    json!({
        "index": index, "uuid": format!("GPU-7672616d-7363-6f70-6570-68616e746f{index:02x}"), "name": gpu.name,
        "used_bytes": used, "free_bytes": gpu.total_bytes - used, "total_bytes": gpu.total_bytes, "source": "nvml",
        "processes": processes,
    })
}

/// The bytes of a process on a GPU for this number of MiB.
fn with_context(mib: u64) -> u64 {
    phantom_gpu(0).context_bytes + mib * MIB
}

#[test]
fn top_shows_two_gpus_and_who_is_on_them() {
    let Some(machine) = phantom_run(2) else { return };
    let home = Home::new();
    let look = || {
        let (look, _) = answer(&mut on(&machine, &home, &["top"]));
        assert_eq!((&look["gpus_error"], &look["programs"]), (&Value::Null, &json!([])));
        look["gpus"].clone()
    };
    // The program creates no context.
    assert_eq!(look(), json!([gpu(0, &[]), gpu(1, &[])]));
    let one = Holder::start(&machine, "1:300");
    let both = Holder::start(&machine, "0:100 1:20");
    let mut on_second = [(one.pid(), with_context(300)), (both.pid(), with_context(20))];
    on_second.sort_unstable();
    assert_eq!(look(), json!([gpu(0, &[(both.pid(), with_context(100))]), gpu(1, &on_second)]));
    let pid = one.pid();
    drop(one);
    let left = |mib| vec![(both.pid(), with_context(mib))];
    assert_eq!(look(), json!([gpu(0, &left(100)), gpu(1, &left(20))]), "without process {pid}");
    drop(both);
    assert_eq!(look(), json!([gpu(0, &[]), gpu(1, &[])]));
    assert_eq!(machine.report().unwrap().counts.killed, 2);
}

/// The numbers on the screen follow the programs.
#[test]
fn the_screen_shows_who_is_on_two_gpus_until_they_are_killed() {
    let Some(machine) = phantom_run(2) else { return };
    let home = Home::new();
    // The loader rejects paths with spaces or quotes.
    let environment =
        machine.environment().into_iter().map(|(name, value)| format!("{name}={}", value.display()));
    let environment = environment.collect::<Vec<_>>().join(" ");
    let Some(screen) = Screen::start_with(&environment, &home, "--interval 0.1", 100, 24) else { return };
    let lines = |shown: &str| {
        let lines = shown.lines().skip_while(|line| !line.contains("Phantom GPU 0"));
        lines.take(4).map(str::to_owned).collect::<Vec<_>>()
    };
    let free = |shown: &str| {
        let [first, second, ..] = &lines(shown)[..] else { return false };
        first.contains("0 B of  16.00 GiB")
            && second.contains("0 B of  32.00 GiB")
            && second.contains("Phantom GPU 1")
    };
    screen.until_that(free);
    let holder = Holder::start(&machine, "0:100 1:300");
    let its = |mib: u64| format!("process {} {mib}.00 MiB", holder.pid());
    let (on_first, on_second) = (its(512 + 100), its(512 + 300));
    screen.until_that(|shown| {
        let [first, below, second, last] = &lines(shown)[..] else { return false };
        first.contains("612.00 MiB of  16.00 GiB")
            && below.contains(&on_first)
            && second.contains("812.00 MiB of  32.00 GiB")
            && last.contains(&on_second)
    });
    drop(holder);
    screen.until_that(free);
    screen.press("q");
    screen.is_given_back();
}

#[test]
fn a_process_on_one_of_two_gpus_is_watched_there() {
    let Some(machine) = phantom_run(2) else { return };
    let home = Home::new();
    let holder = Holder::start(&machine, "1:300");
    let _other = Holder::start(&machine, "1:20");
    let pid = holder.pid().to_string();
    let watch = |more: &[&str]| {
        let args = [&["monitor", &pid, "--duration", "0.2"], more].concat();
        let (summary, said) = answer(&mut on(&machine, &home, &args));
        assert_eq!((&summary["ended"], &summary["errors"]), (&json!("duration"), &json!(0)), "{summary}");
        let high = ["process_used_bytes", "device_used_bytes", "device_total_bytes"];
        (high.map(|key| summary["high"][key].as_u64()), said)
    };
    let total = |gpu| Some(phantom_gpu(gpu).total_bytes);
    let seen = [Some(with_context(300)), Some(with_context(300) + with_context(20)), total(1)];
    let (high, said) = watch(&[]);
    assert_eq!(high, seen);
    assert!(!said.contains("its GPU memory"), "{said}");
    assert_eq!(watch(&["--device", "1"]).0, seen);
    // The process does not use this GPU.
    assert_eq!(watch(&["--device", "0"]).0, [None, Some(0), total(0)]);
}

#[test]
fn a_process_on_several_gpus_needs_the_option_device() {
    let Some(machine) = phantom_run(2) else { return };
    let home = Home::new();
    let holder = Holder::start(&machine, "0:100 1:20");
    let pid = holder.pid().to_string();
    let args = ["monitor", &pid, "--duration", "0.2"];
    let (summary, said) = answer(&mut on(&machine, &home, &args));
    let why =
        "note: its GPU memory is unknown: the process uses several GPUs, 0, 1: choose one with --device";
    assert!(said.lines().any(|line| line == why), "{said}");
    assert_eq!(summary["high"]["device_used_bytes"], Value::Null);
    let (summary, _) = answer(&mut on(&machine, &home, &[&args[..], &["--device", "1"]].concat()));
    assert_eq!(summary["high"]["process_used_bytes"], with_context(20));
}

#[test]
fn monitor_reports_the_freed_bytes_of_a_killed_process() {
    let Some(machine) = phantom_run(2) else { return };
    let home = Home::new();
    let log = home.path().join("run.jsonl");
    let holder = Holder::start(&machine, "1:300");
    let pid = holder.pid().to_string();
    let args = ["monitor", &pid, "--interval", "0.02", "--json", "--output", log.to_str().unwrap()];
    let mut monitor =
        on(&machine, &home, &args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while fs::read_to_string(&log).unwrap_or_default().lines().count() < 5 {
        assert_eq!(monitor.try_wait().unwrap(), None);
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(holder);
    let output = monitor.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&summary["ended"], &summary["errors"]), (&json!("gone"), &json!(0)));
    assert_eq!(summary["high"]["process_used_bytes"], with_context(300));
}

/// A process on a MIG instance, and its log.
#[test]
fn the_log_of_a_process_on_an_instance_has_the_size_of_the_instance() {
    let mig = Some(PhantomMig { instances: 2, whole_bytes: 141 << 30 });
    let Some(machine) = phantom_run_of(&[PhantomGpu { mig, ..phantom_gpu(0) }]) else { return };
    let home = Home::new();
    let holder = Holder::start(&machine, "0:300");
    let (look, _) = answer(&mut on(&machine, &home, &["top"]));
    let rows = look["gpus"].as_array().unwrap().iter();
    let rows = rows.map(|gpu| (gpu["source"].clone(), gpu["total_bytes"].clone(), gpu["used_bytes"].clone()));
    let row = |used: u64| (json!("nvml_mig"), json!(phantom_gpu(0).total_bytes), json!(used));
    assert_eq!(rows.collect::<Vec<_>>(), [row(with_context(300)), row(0)]);
    let log = home.path().join("run.csv");
    let (log, pid) = (log.to_str().unwrap(), holder.pid().to_string());
    let args = ["monitor", &pid, "--duration", "0.2", "--output", log];
    let output = on(&machine, &home, &args).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("  the device's bytes are of the MIG instance, from NVML\n"), "{text}");
    assert!(fs::read_to_string(log).unwrap().contains(",nvml_mig,"));
    let report = vramscope(&["report", log]).output().unwrap();
    let report = String::from_utf8(report.stdout).unwrap();
    assert!(report.contains("16.00 GiB in total, of the MIG instance, from NVML"), "{report}");
    let (report, _) = answer(&mut vramscope(&["report", log]));
    assert_eq!(report["devices"][0]["device_source"], "nvml_mig");
}

/// A process on a GPU that shares the host's memory.
#[test]
fn the_numbers_of_a_shared_gpu_are_the_hosts() {
    let shared = PhantomGpu { name: "NVIDIA GB10".to_owned(), is_integrated: true, ..phantom_gpu(0) };
    let Some(machine) = phantom_run_of(&[shared]) else { return };
    let home = Home::new();
    let holder = Holder::start(&machine, "0:300");
    let (look, _) = answer(&mut on(&machine, &home, &["top"]));
    let host = fs::read_to_string("/proc/meminfo").unwrap();
    let total: u64 = host.split_whitespace().nth(1).unwrap().parse().unwrap();
    let gpu = &look["gpus"][0];
    assert_eq!((&gpu["source"], &gpu["total_bytes"]), (&json!("meminfo"), &json!(total << 10)), "{gpu}");
    let pid = holder.pid().to_string();
    let (summary, _) = answer(&mut on(&machine, &home, &["monitor", &pid, "--duration", "0.2"]));
    let high = &summary["high"];
    assert_eq!(
        (&high["device_source"], &high["device_total_bytes"]),
        (&json!("meminfo"), &json!(total << 10))
    );
    assert_eq!(high["process_used_bytes"], with_context(300));
}
