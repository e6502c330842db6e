//! Runs one program on CuPy's pool and hooks and on ours: events and bytes must be equal. This needs an interpreter with CuPy, named by
//! `VRAMSCOPE_CUPY_PYTHON`, but no GPU: addresses are made up. python/tests/test_cupy_pool.py also compares addresses.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use vramscope_allocator::hooks::{
    AllocPostprocess, AllocPreprocess, BoxedError, Free, MallocPostprocess, MallocPreprocess, MemoryHook,
    register,
};
use vramscope_allocator::{Allocation, Limit, MemoryPool, Policy, VirtualDevice};

use crate::MIB;
use crate::python::python;

const LIMIT: u64 = 4096 * MIB;

/// Runs the steps from standard input: `m` and a size allocates, `f` and an index frees that allocation, `c` empties the cache.
const SCRIPT: &str = "\
import sys, cupy
class Log(cupy.cuda.MemoryHook):
    name = 'Log'
    def alloc_preprocess(self, **k): print('alloc_pre', k['mem_size'])
    def alloc_postprocess(self, **k): print('alloc_post', k['mem_size'], int(k['mem_ptr'] != 0))
    def malloc_preprocess(self, **k): print('malloc_pre', k['size'], k['mem_size'])
    def malloc_postprocess(self, **k): print('malloc_post', k['size'], k['mem_size'], int(k['mem_ptr'] != 0))
    def free_preprocess(self, **k): print('free_pre', k['mem_size'])
    def free_postprocess(self, **k): print('free_post', k['mem_size'])
memory = cupy.cuda.memory
addresses = iter(range(1 << 40, 1 << 60, 1 << 30))
pool = memory.MemoryPool(memory.PythonFunctionAllocator(lambda size, _: next(addresses), lambda *_: None).malloc)
pool.set_limit(size=4096 << 20)
held = []
with Log():
    for line in sys.stdin:
        step, *n = line.split()
        if step == 'm':
            try: held.append(pool.malloc(int(n[0])))
            except cupy.cuda.memory.OutOfMemoryError as e: held.append(None); print(e)
        elif step == 'f': held[int(n[0])] = None
        else: pool.free_all_blocks()
        print('state', pool.used_bytes(), pool.total_bytes(), pool.n_free_blocks())
    for number in range(len(held)): held[number] = None
";

/// Prints the same lines from our hook.
#[derive(Default)]
struct Log(Mutex<String>);

impl Log {
    fn line(&self, line: std::fmt::Arguments<'_>) {
        writeln!(self.0.lock().unwrap(), "{line}").unwrap();
    }
}

impl MemoryHook for Log {
    fn alloc_preprocess(&self, e: &AllocPreprocess) -> Result<(), BoxedError> {
        self.line(format_args!("alloc_pre {}", e.mem_size));
        Ok(())
    }
    fn alloc_postprocess(&self, e: &AllocPostprocess) {
        self.line(format_args!("alloc_post {} {}", e.mem_size, u8::from(e.mem_ptr != 0)));
    }
    fn malloc_preprocess(&self, e: &MallocPreprocess) -> Result<(), BoxedError> {
        self.line(format_args!("malloc_pre {} {}", e.size, e.mem_size));
        Ok(())
    }
    fn malloc_postprocess(&self, e: &MallocPostprocess) {
        self.line(format_args!("malloc_post {} {} {}", e.size, e.mem_size, u8::from(e.mem_ptr != 0)));
    }
    fn free_preprocess(&self, e: &Free) {
        self.line(format_args!("free_pre {}", e.mem_size));
    }
    fn free_postprocess(&self, e: &Free) {
        self.line(format_args!("free_post {}", e.mem_size));
    }
}

/// A program that splits and joins blocks, reaches the limit and empties the cache. Its sizes rarely repeat: among free blocks of one size,
/// CuPy takes the block whose Python object has the lowest address.
fn program() -> String {
    let mut steps = String::new();
    let mut state = 1u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % below
    };
    for allocations in 1..400u64 {
        let size = match random(4) {
            0 => random(768 * MIB),
            1 => random(384 * MIB),
            _ => random(192 * MIB),
        };
        writeln!(steps, "m {size}").unwrap();
        if random(3) > 0 {
            writeln!(steps, "f {}", random(allocations)).unwrap();
        }
        if random(60) == 0 {
            steps.push_str("c\n");
        }
    }
    steps
}

fn ours(program: &str) -> String {
    let gpu = Arc::new(VirtualDevice::with_capacity(1 << 36));
    let pool = MemoryPool::new(&Policy::cupy(), vec![gpu]).unwrap();
    pool.set_limit(Limit::Bytes(LIMIT)).unwrap();
    let log = Arc::new(Log::default());
    let _guard = register(log.clone()).unwrap();
    let mut held: Vec<Option<Allocation>> = Vec::new();
    for step in program.lines() {
        match step.split_once(' ') {
            Some(("m", size)) => match pool.malloc(size.parse().unwrap()) {
                Ok(block) => held.push(Some(block)),
                Err(e) => {
                    held.push(None);
                    log.line(format_args!("{e}"));
                }
            },
            Some((_, number)) => held[number.parse::<usize>().unwrap()] = None,
            None => pool.free_all_blocks().unwrap(),
        }
        let (used, total, free) = (pool.used_bytes(), pool.total_bytes(), pool.n_free_blocks());
        log.line(format_args!("state {used} {total} {free}"));
    }
    held.clear();
    std::mem::take(&mut *log.0.lock().unwrap())
}

#[test]
fn the_same_program_gives_cupys_events_and_bytes() {
    let program = program();
    let ours = ours(&program);
    assert!(
        ours.contains("Out of memory allocating") && ours.contains("free_post"),
        "the program covers failures and frees"
    );
    let Some(interpreter) = vramscope_testing::interpreter("cupy", "VRAMSCOPE_CUPY_PYTHON") else { return };
    let theirs = python(&interpreter, SCRIPT, program.as_bytes());
    let different = theirs.lines().zip(ours.lines()).enumerate().find(|(_, (theirs, ours))| theirs != ours);
    assert_eq!(different, None, "at this line: CuPy's, ours");
    assert_eq!(theirs.lines().count(), ours.lines().count());
}
