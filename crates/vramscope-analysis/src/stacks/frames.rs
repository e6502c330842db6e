//! Classification of frames: the user's code, libraries and native code.

use std::ops::Range;

use vramscope_trace::{Frame, FrameId, StackId, Trace};

/// The origin of a frame's code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Code {
    /// Code of the recorded program.
    User,
    /// Python code of an installed package or the standard library.
    Library,
    /// Compiled code, including the interpreter's own.
    Native,
}

/// The classification of all frames of a trace, computed once.
#[derive(Debug, Clone)]
pub struct Frames {
    classes: Vec<FrameClass>,
    /// The common directory of all user files, including the trailing `/`.
    root: String,
}

/// The classification of a frame by its file and function.
#[derive(Debug, Clone, Copy)]
struct FrameClass {
    code: Code,
    /// The frame starts the program; see [`Frames::between_the_ends`].
    is_startup: bool,
    function: FunctionClass,
}

/// The classification of a function by its name.
#[derive(Debug, Clone, Copy)]
struct FunctionClass {
    /// The name contains `::`, as C++ names do and Python names never do.
    is_compiled: bool,
    is_backward: bool,
    is_plumbing: bool,
    is_unwinder: bool,
    is_startup: bool,
}

impl Frames {
    /// Classifies every frame of `trace`.
    pub fn of(trace: &Trace) -> Self {
        // Each text is classified once: many frames may share a long text.
        let mut files: Vec<Option<(Code, bool)>> = vec![None; trace.strings.len()];
        let mut names: Vec<Option<FunctionClass>> = vec![None; trace.strings.len()];
        let mut classes = Vec::with_capacity(trace.frames.len());
        let mut users = vec![false; trace.strings.len()];
        for (_, Frame { filename, name, .. }) in trace.frames.iter() {
            let function = *names[name.index()].get_or_insert_with(|| function(trace.strings.get(name)));
            let of_file = || {
                let file = trace.strings.get(filename);
                (code_of_file(file), is_startup_file(file))
            };
            let (code, is_startup) = match function {
                FunctionClass { is_compiled: true, .. } => (Code::Native, false),
                _ => *files[filename.index()].get_or_insert_with(of_file),
            };
            users[filename.index()] |= code == Code::User;
            let is_startup = match code {
                Code::User => false,
                Code::Library => is_startup,
                Code::Native => function.is_startup,
            };
            classes.push(FrameClass { code, is_startup, function });
        }
        let users = trace.strings.iter().zip(users).filter(|&(_, is_users)| is_users);
        let root = shared_directory(users.map(|(path, _)| path));
        Self { classes, root }
    }

    /// Returns the short path of a frame's file. For user files it starts at the common directory of all user files; for other
    /// files, at the directory where packages are installed. Separators are `/` on every system.
    pub fn short_path(&self, trace: &Trace, frame: FrameId) -> String {
        let path = trace.strings.get(trace.frames.get(frame).filename).replace('\\', "/");
        let inside = match self.code(frame) {
            Code::User => path.strip_prefix(&self.root),
            _ => path.rsplit_once("-packages/").map(|(_, inside)| inside),
        };
        inside.map(str::to_owned).unwrap_or(path)
    }

    /// Returns the origin of the code of `frame`.
    pub fn code(&self, frame: FrameId) -> Code {
        self.classes[frame.index()].code
    }

    /// Returns the user's frames of a stack, innermost first.
    pub fn user_frames<'t>(
        &self,
        trace: &'t Trace,
        stack: StackId,
    ) -> impl DoubleEndedIterator<Item = FrameId> + use<'t, '_> {
        trace.stacks.get(stack).iter().copied().filter(|&f| self.code(f) == Code::User)
    }

    /// Returns the stack, innermost frame first, without the parts that all stacks share. These are the frames at the inner end
    /// that captured the stack, and the frames at the outer end that start processes, threads, interpreters and the program.
    /// Returns the whole stack if it has no other frames.
    pub fn between_the_ends<'t>(&self, trace: &'t Trace, stack: StackId) -> &'t [FrameId] {
        &trace.stacks.get(stack)[self.ends(trace, stack)]
    }

    /// Returns the positions in the stack of the frames [between the ends](Self::between_the_ends).
    pub(crate) fn ends(&self, trace: &Trace, stack: StackId) -> Range<usize> {
        let frames = trace.stacks.get(stack);
        let class = |f: &FrameId| self.classes[f.index()];
        let Some(outermost) = frames.iter().rposition(|f| !class(f).is_startup) else {
            return 0..frames.len();
        };
        let unwinder = frames[..outermost].iter().rposition(|f| class(f).function.is_unwinder);
        // Among the frames that capture a stack are frames of the standard library without recognizable names.
        let is_in_front = |&last: &usize| frames[..last].iter().all(|f| class(f).code == Code::Native);
        let innermost = unwinder.filter(is_in_front).map_or(0, |last| last + 1);
        innermost..outermost + 1
    }

    /// Returns the library of a frame: the package of a Python file, or the outermost namespace of compiled code. `None` for the
    /// user's code.
    pub fn library(&self, trace: &Trace, frame: FrameId) -> Option<String> {
        let at = trace.frames.get(frame);
        match self.code(frame) {
            Code::User => None,
            Code::Library => Some(package(trace.strings.get(at.filename))),
            Code::Native => Some(namespace(trace.strings.get(at.name), trace.strings.get(at.filename))),
        }
    }

    /// Returns the frame that names a stack: the innermost user frame; else the innermost library frame; else the running
    /// backward function; else the innermost frame outside the allocator.
    pub fn own_frame(&self, trace: &Trace, stack: StackId) -> Option<FrameId> {
        let frames = trace.stacks.get(stack);
        let first = |code| frames.iter().copied().find(|&f| self.code(f) == code);
        let function = |f: &FrameId| self.classes[f.index()].function;
        first(Code::User)
            .or_else(|| first(Code::Library))
            .or_else(|| frames.iter().copied().find(|f| function(f).is_backward))
            .or_else(|| frames.iter().copied().find(|f| !function(f).is_plumbing))
            .or_else(|| frames.first().copied())
    }
}

/// The largest number of bytes of a path or a function name that are read to find a library.
const LONGEST_READ: usize = 4 << 10;

/// Returns the package of a library's Python file.
fn package(path: &str) -> String {
    let path = path[path.ceil_char_boundary(path.len().saturating_sub(LONGEST_READ))..].replace('\\', "/");
    if let Some((_, inside)) = path.rsplit_once("-packages/") {
        let first = inside.split('/').next().unwrap_or_default();
        return first.strip_suffix(".py").unwrap_or(first).to_owned();
    }
    match TORCH.iter().any(|part| path.contains(&format!("/{part}"))) {
        true => "torch".to_owned(),
        false if path.starts_with('<') && !path.starts_with("<frozen") => "generated code".to_owned(),
        false => "Python's library".to_owned(),
    }
}

/// Returns the outermost namespace of a compiled function, as `at::`; without one, the interpreter or compiled code.
fn namespace(function: &str, file: &str) -> String {
    let function = &function[..function.floor_char_boundary(LONGEST_READ)];
    let name = function.split(['(', '<']).next().unwrap_or_default();
    // The result type of a template comes before its name.
    let name = name.rsplit(' ').next().unwrap_or_default();
    match name.split_once("::") {
        Some((outermost, _)) if !outermost.is_empty() => format!("{outermost}::"),
        _ if name.starts_with("Py") || name.starts_with("_Py") || file.contains("/Python-3") => {
            "Python's interpreter".to_owned()
        }
        _ => "other compiled code".to_owned(),
    }
}

/// Returns the longest directory that contains all files.
fn shared_directory<'p>(files: impl Iterator<Item = &'p str>) -> String {
    let mut shared: Option<String> = None;
    for path in files {
        let path = path.replace('\\', "/");
        let Some((directory, _)) = path.rsplit_once('/') else { continue };
        let directory = format!("{directory}/");
        shared = Some(match shared {
            None => directory,
            Some(shared) => {
                let same = shared.split_inclusive('/').zip(directory.split_inclusive('/'));
                same.take_while(|(a, b)| a == b).map(|(a, _)| a).collect()
            }
        });
    }
    shared.unwrap_or_default()
}

/// Directories of PyTorch's sources, for checkouts that are not installed as a package.
const TORCH: [&str; 12] = [
    "torch/nn/",
    "torch/optim/",
    "torch/autograd/",
    "torch/utils/",
    "torch/cuda/",
    "torch/distributed/",
    "torch/_dynamo/",
    "torch/_inductor/",
    "torch/_functorch/",
    "torch/fx/",
    "torch/functional.py",
    "torch/_tensor.py",
];

/// Classifies a file; functions with compiled names are classified before.
fn code_of_file(filename: &str) -> Code {
    // Paths of all systems use the same separator.
    let path = filename.replace('\\', "/");
    let is_python = path.ends_with(".py")
        || path.ends_with(".pyx")
        || path.starts_with('<')
        || path.contains("/ipykernel_");
    if !is_python {
        return Code::Native;
    }
    // Importing and generated code has names in angle brackets instead of paths; notebook cells are user code.
    if path.starts_with('<') && !path.starts_with("<ipython-input") && path != "<stdin>" && path != "<string>"
    {
        return Code::Library;
    }
    // The functions that replace PyTorch's on a phantom GPU, and the Python package in a checkout, are not the program's.
    if path.ends_with("/vramscope_values.py") || path.contains("/python/vramscope/") {
        return Code::Library;
    }
    let installed = path.contains("/site-packages/") || path.contains("/dist-packages/");
    if installed || is_standard_library(&path) || TORCH.iter().any(|t| path.contains(&format!("/{t}"))) {
        return Code::Library;
    }
    Code::User
}

/// Whether the path contains a part such as `.../lib/python3.11/copy.py`, `.../python311/Lib/copy.py` or
/// `.../cpython-3.10-windows/lib/copy.py`.
fn is_standard_library(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    let python = |p: &str| {
        let p = p.to_ascii_lowercase();
        let p = p.strip_prefix('c').unwrap_or(&p).to_owned();
        p.strip_prefix("python")
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit() || c == '-'))
    };
    parts.array_windows().any(|[a, b]| {
        (a.eq_ignore_ascii_case("lib") && python(b)) || (python(a) && b.eq_ignore_ascii_case("lib"))
    })
}

fn function(name: &str) -> FunctionClass {
    FunctionClass {
        is_compiled: name.contains("::"),
        is_backward: is_backward(name),
        is_plumbing: is_plumbing(name),
        is_unwinder: UNWINDER.iter().any(|part| name.contains(part)),
        is_startup: STARTUP.iter().any(|start| name.starts_with(start)),
    }
}

/// Functions with which PyTorch captures a stack (`torch/csrc/profiler/unwind`, `torch/csrc/profiler/combined_traceback.cpp`).
const UNWINDER: [&str; 3] = ["torch::unwind::", "CapturedTraceback::gather", "gather_with_cpp"];

/// Functions of the C library, C++ and CPython that start a process, a thread or an interpreter.
const STARTUP: [&str; 12] = [
    "_start",
    "__libc_",
    "__clone",
    "clone",
    "start_thread",
    "execute_native_thread_function",
    "Py",
    "_Py",
    "pymain_",
    "pyrun_",
    "run_mod",
    "run_eval_code_obj",
];

/// Whether the file is one of Python's that starts programs or threads, or imports modules.
fn is_startup_file(filename: &str) -> bool {
    const FILES: [&str; 8] = [
        "<frozen runpy>",
        "<frozen importlib",
        "/runpy.py",
        "/threading.py",
        "/multiprocessing/",
        "/importlib/",
        "/torch/distributed/run.py",
        "/torch/distributed/launcher/",
    ];
    let path = filename.replace('\\', "/");
    FILES.iter().any(|file| path.contains(file))
}

/// Whether autograd runs this function, as `torch::autograd::generated::BmmBackward0::apply(...)`.
fn is_backward(name: &str) -> bool {
    name.contains("autograd::generated::") && name.contains("::apply(")
}

/// Whether the function captures the stack or belongs to an allocator; every allocation has such frames.
fn is_plumbing(name: &str) -> bool {
    const PLUMBING: [&str; 11] = [
        "torch::unwind::",
        "CapturedTraceback::gather",
        "gather_with_cpp",
        "CUDACachingAllocator::",
        "c10::intrusive_ptr<",
        "c10::StorageImpl",
        "at::detail::empty_",
        "::create_out(",
        "::set_output_",
        "TensorIterator",
        // Functions of CUDA's runtime in a program that contains it, whose names end in a hash.
        "libcudart_static_",
    ];
    PLUMBING.iter().any(|p| name.contains(p))
}

#[cfg(test)]
mod tests {
    use vramscope_trace::{FxNode, Trace};

    use super::*;

    #[test]
    fn frames_of_capturing_and_of_startup_are_cut_from_both_ends_of_a_stack() {
        let mut trace = Trace::default();
        let mut stack = |frames: &[(&str, &str)]| {
            let frames: Vec<FrameId> = frames
                .iter()
                .map(|(filename, name)| {
                    let [filename, name] = [filename, name].map(|text| trace.strings.intern(text).unwrap());
                    trace.frames.intern(Frame { name, filename, line: 1, fx: FxNode::default() }).unwrap()
                })
                .collect();
            trace.stacks.intern(&frames).unwrap()
        };
        let unwinder = [
            ("??", "torch::unwind::unwind()"),
            ("??", "operator()"),
            ("memory_snapshot.cpp", "gather_with_cpp()"),
        ];
        let program = [
            ("??", "at::empty(c10::ArrayRef)"),
            ("ceval.c", "_PyEval_Frame"),
            ("/home/user/train.py", "<module>"),
        ];
        let startup = [
            ("pythonrun.c", "run_mod"),
            ("<frozen runpy>", "_run_code"),
            ("ceval.c", "_PyEval_Frame"),
            ("/usr/lib/python3.12/runpy.py", "run_path"),
            ("libc-start.c", "__libc_start_main_impl"),
            ("??", "_start"),
        ];
        let whole = stack(&[&unwinder[..], &program, &startup].concat());
        let inside = stack(&program);
        let only_startup = stack(&startup);
        // Imports in the middle of a program do not start it. A stack captured by a call from Python belongs to the program.
        let importing =
            [program[2], ("<frozen importlib._bootstrap>", "_load"), ("/home/user/data.py", "<module>")];
        let importing = stack(&[&importing[..], &unwinder].concat());
        let frames = Frames::of(&trace);
        let told = |stack| frames.between_the_ends(&trace, stack).to_vec();
        assert_eq!(told(whole), trace.stacks.get(inside));
        for unchanged in [inside, only_startup, importing] {
            assert_eq!(told(unchanged), trace.stacks.get(unchanged));
        }
    }

    #[test]
    fn a_library_is_a_package_or_a_namespace() {
        for (path, library) in [
            ("/env/lib/python3.11/site-packages/torch/nn/modules/linear.py", "torch"),
            ("C:\\p\\.venv\\lib\\site-packages\\six.py", "six"),
            ("/src/pytorch/torch/nn/functional.py", "torch"),
            ("/usr/lib/python3.12/copy.py", "Python's library"),
            ("<frozen importlib._bootstrap>", "Python's library"),
            ("<eval_with_key>.1", "generated code"),
        ] {
            assert_eq!(package(path), library, "{path}");
        }
        for (function, file, library) in [
            ("at::_ops::addmm::redispatch(c10::DispatchKeySet, at::Tensor const&)", "??", "at::"),
            ("void at::native::kernel<float>(int)", "??", "at::"),
            ("std::vector<at::Tensor, std::allocator<at::Tensor> >::~vector()", "", "std::"),
            ("PyNumber_Multiply", "??", "Python's interpreter"),
            ("run_mod", "/usr/src/Python-3.11.7/Python/pythonrun.c", "Python's interpreter"),
            ("main", "main.c", "other compiled code"),
            ("(anonymous namespace)::f()", "??", "other compiled code"),
            ("", "", "other compiled code"),
        ] {
            assert_eq!(namespace(function, file), library, "{function}");
        }
        assert_eq!(package(&format!("/site-packages/{}", "é".repeat(9000))), "Python's library");
    }

    fn classify(filename: &str, name: &str) -> Code {
        if function(name).is_compiled { Code::Native } else { code_of_file(filename) }
    }

    #[test]
    fn the_users_code_is_what_is_neither_installed_nor_compiled() {
        for (filename, name, code) in [
            ("/home/user/train.py", "main", Code::User),
            ("C:\\work\\train.py", "main", Code::User),
            ("<ipython-input-3-abc>", "<module>", Code::User),
            ("/tmp/ipykernel_42/1234.py", "<module>", Code::User),
            ("/env/lib/python3.11/site-packages/torch/nn/modules/linear.py", "forward", Code::Library),
            ("C:\\p\\.venv\\lib\\site-packages\\torch\\storage.py", "clone", Code::Library),
            ("/usr/lib/python3.12/copy.py", "deepcopy", Code::Library),
            ("C:\\uv\\python\\cpython-3.10.19-windows-x86_64-none\\lib\\copy.py", "deepcopy", Code::Library),
            ("C:\\Python311\\Lib\\runpy.py", "run", Code::Library),
            ("/src/pytorch/torch/nn/functional.py", "linear", Code::Library),
            ("<frozen importlib._bootstrap>", "_load", Code::Library),
            ("<eval_with_key>.1", "forward", Code::Library),
            ("??", "PyNumber_Multiply", Code::Native),
            ("", "torch::autograd::Node::operator()", Code::Native),
            ("memory_snapshot.cpp", "gather", Code::Native),
        ] {
            assert_eq!(classify(filename, name), code, "{filename}");
        }
    }
}
