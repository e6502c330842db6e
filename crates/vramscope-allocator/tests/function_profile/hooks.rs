//! Which hooks run for a call, and when.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use vramscope_allocator::hooks::function::{
    self, CallPhase, Ended, Function, FunctionCall, FunctionHook, FunctionHookError, FunctionHookGuard,
};

use crate::{caught, panic_quietly};

/// The callbacks that ran, in order.
#[derive(Default)]
struct Log(Mutex<Vec<String>>);

impl Log {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    fn say(&self, line: String) {
        self.0.lock().unwrap().push(line);
    }
}

/// Logs every callback, and runs a closure in it.
struct LoggingHook {
    name: &'static str,
    log: Arc<Log>,
    then: Box<dyn Fn(&str) + Send + Sync>,
}

impl LoggingHook {
    fn new(name: &'static str, log: &Arc<Log>) -> Arc<Self> {
        Self::with(name, log, |_| ())
    }

    fn with(name: &'static str, log: &Arc<Log>, then: impl Fn(&str) + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { name, log: Arc::clone(log), then: Box::new(then) })
    }

    fn say(&self, callback: &str, of: &str) {
        self.log.say(format!("{} {callback} {of}", self.name));
        (self.then)(callback);
    }

    fn pre(&self, callback: &str, call: &FunctionCall) {
        self.say(callback, &format!("{} {} {}", call.function, call.phase, call.depth));
    }

    fn post(&self, callback: &str, call: &FunctionCall, ended: Ended) {
        self.say(callback, &format!("{} {} {} {ended:?}", call.function, call.phase, call.depth));
    }
}

impl FunctionHook for LoggingHook {
    fn name(&self) -> &str {
        self.name
    }
    fn added(&self, function: Option<&Function>) {
        self.say("added", function.map_or("-", Function::name));
    }
    fn deleted(&self, function: Option<&Function>) {
        self.say("deleted", function.map_or("-", Function::name));
    }
    fn forward_preprocess(&self, call: &FunctionCall) {
        self.pre("forward_preprocess", call);
    }
    fn forward_postprocess(&self, call: &FunctionCall, ended: Ended) {
        self.post("forward_postprocess", call, ended);
    }
    fn backward_preprocess(&self, call: &FunctionCall) {
        self.pre("backward_preprocess", call);
    }
    fn backward_postprocess(&self, call: &FunctionCall, ended: Ended) {
        self.post("backward_postprocess", call, ended);
    }
    fn phase_preprocess(&self, call: &FunctionCall) {
        self.pre("phase_preprocess", call);
    }
    fn phase_postprocess(&self, call: &FunctionCall, ended: Ended) {
        self.post("phase_postprocess", call, ended);
    }
}

/// Returns the names of the hooks that ran before and after a call.
fn told_of_call(log: &Log, call: impl FnOnce()) -> (Vec<String>, Vec<String>) {
    log.take();
    call();
    let lines = log.take();
    let of = |callback: &str| {
        let told = lines.iter().filter(|line| line.contains(callback));
        told.map(|line| line.split(' ').next().unwrap().to_owned()).collect()
    };
    (of("preprocess"), of("postprocess"))
}

fn both(names: &[&str]) -> (Vec<String>, Vec<String>) {
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    (names.clone(), names)
}

#[test]
fn every_phase_has_its_callbacks() {
    let log = Arc::default();
    let guard = function::register(LoggingHook::new("a", &log)).unwrap();
    let f = Function::new("F");
    assert_eq!((f.forward(|| 1), f.backward(|| 2), f.phase("eval", || 3)), (1, 2, 3));
    function::forward("G", || function::backward("H", || drop(function::scope("I", "eval".to_owned()))));
    drop(guard);
    f.forward(|| ());
    assert_eq!(
        log.take(),
        [
            "a added -",
            "a forward_preprocess F forward 0",
            "a forward_postprocess F forward 0 Returned",
            "a backward_preprocess F backward 0",
            "a backward_postprocess F backward 0 Returned",
            "a phase_preprocess F eval 0",
            "a phase_postprocess F eval 0 Returned",
            "a forward_preprocess G forward 0",
            "a backward_preprocess H backward 1",
            "a phase_preprocess I eval 2",
            "a phase_postprocess I eval 2 Returned",
            "a backward_postprocess H backward 1 Returned",
            "a forward_postprocess G forward 0 Returned",
            "a deleted -",
        ]
    );
}

#[test]
fn forward_and_backward_are_phases_by_any_name() {
    assert_eq!(
        ["forward", "backward", "eval"].map(CallPhase::from),
        [CallPhase::Forward, CallPhase::Backward, CallPhase::Other("eval".into())]
    );
    assert_eq!(CallPhase::from("backward".to_owned()).to_string(), "backward");
}

#[test]
fn hooks_of_the_function_replace_those_of_the_thread() {
    let log = Arc::default();
    let f = Function::new("F");
    f.add_hook(LoggingHook::new("own", &log), None).unwrap();
    f.add_hook(LoggingHook::new("own_b", &log), Some("b")).unwrap();
    let call = || f.forward(|| ());
    assert_eq!(told_of_call(&log, call), both(&["own", "own_b"]));
    let guards: Vec<FunctionHookGuard> =
        ["a", "b", "c"].map(|name| function::register(LoggingHook::new(name, &log)).unwrap()).into();
    // As in `dict.update`: the function's hook takes the position of `b`, and the other hook comes last.
    assert_eq!(told_of_call(&log, call), both(&["a", "own_b", "c", "own"]));
    assert_eq!(told_of_call(&log, || function::forward("F", || ())), both(&["a", "b", "c"]));
    f.delete_hook("b").unwrap();
    assert_eq!(told_of_call(&log, call), both(&["a", "b", "c", "own"]));
    drop(guards);
    assert_eq!(told_of_call(&log, call), both(&["own"]));
}

#[test]
fn a_second_hook_of_the_same_name_is_refused() {
    let log = Arc::default();
    let (a, again) = (LoggingHook::new("a", &log), LoggingHook::new("a", &log));
    let guard = function::register(a.clone()).unwrap();
    for hook in [a, again] {
        let error = function::register(hook).err().unwrap();
        assert_eq!(error, FunctionHookError::AlreadyRegistered { name: "a".into() });
        assert_eq!(error.to_string(), "hook a already exists");
    }
    // Another thread has separate hooks.
    std::thread::scope(|s| {
        s.spawn(|| drop(function::register(LoggingHook::new("a", &log)).unwrap()));
    });
    drop(guard);
    drop(function::register(LoggingHook::new("a", &log)).unwrap());
    // A refused hook gets no `added` callback.
    assert_eq!(log.take().len(), 6);

    let f = Function::new("F");
    f.add_hook(LoggingHook::new("a", &log), None).unwrap();
    f.add_hook(LoggingHook::new("a", &log), Some("b")).unwrap();
    let error = f.add_hook(LoggingHook::new("c", &log), Some("b")).unwrap_err();
    assert_eq!(error.to_string(), "Hook b already exists");
    let error = f.delete_hook("c").unwrap_err();
    assert_eq!(error.to_string(), "Hook c does not exist");
    f.delete_hook("a").unwrap();
    assert_eq!(f.delete_hook("a").unwrap_err(), FunctionHookError::NotAdded { name: "a".into() });
    assert_eq!(log.take(), ["a added F", "a added F", "a deleted F"]);
    drop(f);
    assert_eq!(log.take(), ["a deleted F"]);
}

#[test]
fn a_guard_may_be_dropped_on_another_thread() {
    let log = Arc::default();
    let guard = function::register(LoggingHook::new("a", &log)).unwrap();
    std::thread::scope(|s| {
        s.spawn(|| drop(guard));
    });
    function::forward("F", || ());
    assert_eq!(log.take(), ["a added -", "a deleted -"]);
    drop(function::register(LoggingHook::new("a", &log)).unwrap());
}

#[test]
fn hooks_change_inside_callbacks_from_the_next_call_on() {
    let log: Arc<Log> = Arc::default();
    let f = Arc::new(Function::new("F"));
    let slot: Arc<Mutex<Option<FunctionHookGuard>>> = Arc::default();
    let first = {
        let (f, log, slot) = (Arc::clone(&f), Arc::clone(&log), Arc::clone(&slot));
        let is_first = AtomicBool::new(true);
        LoggingHook::with("first", &Arc::clone(&log), move |callback| {
            if callback == "forward_preprocess" && is_first.swap(false, Ordering::Relaxed) {
                *slot.lock().unwrap() = Some(function::register(LoggingHook::new("late", &log)).unwrap());
                f.add_hook(LoggingHook::new("late_own", &log), None).unwrap();
                f.delete_hook("early_own").unwrap();
            }
        })
    };
    let _guard = function::register(first).unwrap();
    f.add_hook(LoggingHook::new("early_own", &log), None).unwrap();
    assert_eq!(told_of_call(&log, || f.forward(|| ())), both(&["first", "early_own"]));
    assert_eq!(told_of_call(&log, || f.forward(|| ())), both(&["first", "late", "late_own"]));
    let taken = slot.lock().unwrap().take();
    drop(taken);
    assert_eq!(told_of_call(&log, || f.forward(|| ())), both(&["first", "late_own"]));
}

#[test]
fn hooks_may_call_functions() {
    let log = Arc::default();
    let hook = LoggingHook::with("a", &log, |_| function::forward("G", || ()));
    let guard = function::register(hook).unwrap();
    assert_eq!(told_of_call(&log, || function::forward("F", || ())), both(&["a"]));
    drop(guard);
}

#[test]
fn a_call_ends_however_it_ends() {
    let log = Arc::default();
    let _guard = function::register(LoggingHook::new("a", &log)).unwrap();
    let f = Function::new("F");
    assert!(caught(|| f.forward(|| function::backward("G", panic_quietly))));
    let early = || -> Result<(), std::num::ParseIntError> {
        let _scope = f.scope(CallPhase::Backward);
        "x".parse::<i32>()?;
        function::forward("never", || ());
        Ok(())
    };
    early().unwrap_err();
    // A destructor that runs during a panic may call functions that return normally.
    struct Cleanup;
    impl Drop for Cleanup {
        fn drop(&mut self) {
            function::forward("Cleanup", || ());
        }
    }
    assert!(caught(|| {
        let _cleanup = Cleanup;
        panic_quietly();
    }));
    log.say("then".into());
    f.forward(|| ());
    assert_eq!(
        log.take(),
        [
            "a added -",
            "a forward_preprocess F forward 0",
            "a backward_preprocess G backward 1",
            "a backward_postprocess G backward 1 Panicked",
            "a forward_postprocess F forward 0 Panicked",
            "a backward_preprocess F backward 0",
            "a backward_postprocess F backward 0 Returned",
            "a forward_preprocess Cleanup forward 0",
            "a forward_postprocess Cleanup forward 0 Returned",
            "then",
            "a forward_preprocess F forward 0",
            "a forward_postprocess F forward 0 Returned",
        ]
    );
}

#[test]
fn callbacks_that_panic_leave_the_registry_as_it_was() {
    for at in ["forward_preprocess", "forward_postprocess"] {
        let log = Arc::default();
        let armed = Arc::new(AtomicBool::new(true));
        let bad = {
            let armed = Arc::clone(&armed);
            LoggingHook::with("bad", &log, move |callback| {
                if callback == at && armed.load(Ordering::Relaxed) {
                    panic_quietly();
                }
            })
        };
        let guards = [
            function::register(LoggingHook::new("a", &log)).unwrap(),
            function::register(bad).unwrap(),
            function::register(LoggingHook::new("c", &log)).unwrap(),
        ];
        let names = |names: &[&str]| names.iter().map(|&n| n.to_owned()).collect::<Vec<_>>();
        let told = told_of_call(&log, || assert!(caught(|| function::forward("F", || ()))));
        // Hooks whose preprocess callback returned get the postprocess callback.
        match at {
            "forward_preprocess" => assert_eq!(told, (names(&["a", "bad"]), names(&["a"]))),
            _ => assert_eq!(told, both(&["a", "bad", "c"])),
        }
        // A second panic does not abort the process.
        assert!(caught(|| function::forward("F", panic_quietly)));
        armed.store(false, Ordering::Relaxed);
        log.take();
        function::forward("F", || ());
        assert_eq!(log.take()[0], "a forward_preprocess F forward 0");
        drop(guards);
    }
}

#[test]
fn a_hook_that_panics_when_it_is_added_is_not_there() {
    let log = Arc::default();
    let bad = || {
        LoggingHook::with("bad", &log, |callback| {
            if callback == "added" {
                panic_quietly();
            }
        })
    };
    let f = Function::new("F");
    assert!(caught(|| function::register(bad())));
    assert!(caught(|| f.add_hook(bad(), None)));
    log.take();
    f.forward(|| ());
    f.delete_hook("bad").unwrap_err();
    drop(function::register(LoggingHook::new("bad", &log)).unwrap());
    assert_eq!(log.take(), ["bad added -", "bad deleted -"]);
}

#[test]
fn scopes_may_end_in_any_order() {
    let log = Arc::default();
    let _guard = function::register(LoggingHook::new("a", &log)).unwrap();
    let outer = function::scope("outer", CallPhase::Forward);
    let inner = function::scope("inner", CallPhase::Forward);
    drop(outer);
    drop(inner);
    log.take();
    function::forward("F", || ());
    assert_eq!(log.take()[0], "a forward_preprocess F forward 0");
}
