//! The files of a machine with phantom GPUs: the libraries, and the state that all processes share.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use vramscope_files::{PrivateFolder, with_first};

use crate::machine::{MachineReport, PhantomGpu};
use crate::state::{DEVICES, State, WORDS};

/// The phantom library; empty on systems without one.
const DRIVER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libcuda.so.1"));

/// Names of files in a run's folder: the phantom library, and the shared state.
const LIBRARY: &str = "libcuda.so.1";
const STATE: &str = "state";

/// The library with NVML's name, which links the phantom library.
const NVML: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libnvidia-ml.so.1"));

/// Why a phantom GPU cannot be created or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PhantomError {
    /// The system is not supported: the library needs glibc's loader.
    #[error("phantom GPUs need Linux with glibc, on x86-64 or aarch64")]
    NoLibrary,
    /// No GPU, or too many.
    #[error("a machine has 1 to {DEVICES} phantom GPUs, not {0}")]
    Devices(usize),
    /// The folder cannot be written.
    #[error("cannot create a folder for the phantom's files in {}: {}", folder.display(), in_words(why))]
    Folder {
        /// The parent folder.
        folder: PathBuf,
        /// The system's error.
        why: io::Error,
    },
    /// The folder's path contains a space or a colon, which separate the entries of LD_PRELOAD.
    #[error("{}: LD_PRELOAD accepts no space or colon in a path; set TMPDIR to a folder without them", .0.display())]
    FolderName(PathBuf),
    /// The state file is missing or invalid.
    #[error("{}: not the state of a phantom run", .0.display())]
    State(PathBuf),
}

/// Returns an error about a folder, and how to fix it.
fn in_words(why: &io::Error) -> String {
    match why.get_ref() {
        Some(why) => format!("{why}; set TMPDIR to a folder that only you can write to"),
        None => format!("{}; set TMPDIR to a writable folder", why.kind()),
    }
}

/// Options of a machine.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct PhantomOptions {
    /// Seed of random values. By default, a program reads zeros from a GPU.
    pub random_values: Option<u64>,
    /// The newest CUDA release that the driver supports, as `1000 * major + 10 * minor`. By default, the program's own release.
    pub cuda_version: Option<u32>,
    /// Simulate the other ranks of every NCCL communicator: they repeat the messages of the one real rank.
    pub pretend_ranks: bool,
    /// Work is done only when the program waits for it, or 1,024 launches are queued. By default, it is done at once.
    pub late: bool,
    /// Discard the contents of copies of more than 64 KiB to a GPU. They read as zeros and take no host memory.
    pub no_contents: bool,
    /// Another cuDNN that answers in the place of the program's own: the path of its `libcudnn_graph.so.9`, or of its folder.
    pub cudnn: Option<PathBuf>,
    /// Where a program measures plans of cuDNN, the one with the largest workspace is the fastest. By default, it is the one with the
    /// smallest.
    pub large_workspaces: bool,
}

/// A machine with phantom GPUs. Dropping it removes its files; running processes keep their GPUs.
#[derive(Debug)]
pub struct PhantomRun {
    folder: PrivateFolder,
    cudnn: Option<PathBuf>,
}

impl PhantomRun {
    /// Creates a machine with these GPUs.
    ///
    /// # Errors
    /// Fails if the system has no phantom library, if the folder for the machine's files cannot be created, or if
    /// `gpus` does not have 1 to 16 entries.
    pub fn new(gpus: &[PhantomGpu], options: PhantomOptions) -> Result<Self, PhantomError> {
        if DRIVER.is_empty() {
            return Err(PhantomError::NoLibrary);
        }
        if gpus.is_empty() || gpus.len() > DEVICES {
            return Err(PhantomError::Devices(gpus.len()));
        }
        let at = std::env::temp_dir();
        let failed = |why| PhantomError::Folder { folder: at.clone(), why };
        let folder = PrivateFolder::new_in(&at, "vramscope-phantom-").map_err(failed)?;
        if folder.path().to_string_lossy().contains([' ', ':']) {
            return Err(PhantomError::FolderName(folder.path().to_owned()));
        }
        let run = Self { folder, cudnn: options.cudnn.clone() };
        run.fill(gpus, &options).map_err(failed)?;
        Ok(run)
    }

    fn fill(&self, gpus: &[PhantomGpu], options: &PhantomOptions) -> io::Result<()> {
        let dir = self.folder.dir();
        dir.write_new(LIBRARY.as_ref(), DRIVER)?;
        dir.write_new("libnvidia-ml.so.1".as_ref(), NVML)?;
        // Some programs, such as Triton, link to the driver by its plain name.
        #[cfg(unix)]
        std::os::unix::fs::symlink(LIBRARY, self.path("libcuda.so"))?;
        let words: Vec<AtomicU64> = (0..WORDS).map(|_| AtomicU64::new(0)).collect();
        let state = State::begin(&words, options.cuda_version.unwrap_or(0).into(), options.random_values);
        gpus.iter().for_each(|gpu| gpu.add_to(state));
        if options.pretend_ranks {
            state.pretend_ranks();
        }
        if options.late {
            state.be_late();
        }
        if options.no_contents {
            state.keep_no_contents();
        }
        if options.large_workspaces {
            state.prefer_large_workspaces();
        }
        let bytes: Vec<u8> =
            words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes()).collect();
        dir.write_new(STATE.as_ref(), &bytes)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn library(&self) -> PathBuf {
        self.path(LIBRARY)
    }

    fn state(&self) -> PathBuf {
        self.path(STATE)
    }

    /// Returns the folder of the machine's files. It is removed with the machine, including any files added to it.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Environment variables that make a program use these GPUs. In path lists, the entries of this process follow at
    /// the end.
    pub fn environment(&self) -> Vec<(&'static str, OsString)> {
        vec![
            ("VRAMSCOPE_PHANTOM_STATE", self.state().into()),
            ("LD_PRELOAD", with_first(&self.library(), "LD_PRELOAD")),
            ("LD_LIBRARY_PATH", with_first(self.folder(), "LD_LIBRARY_PATH")),
            ("TRITON_LIBCUDA_PATH", self.folder().into()),
            // Without another cuDNN the variable is empty, so that one of the caller's environment has no effect.
            ("VRAMSCOPE_PHANTOM_CUDNN", self.cudnn.clone().unwrap_or_default().into()),
        ]
    }

    /// Returns a report about the machine so far.
    ///
    /// # Errors
    /// Fails if its state cannot be read any more.
    pub fn report(&self) -> Result<MachineReport, PhantomError> {
        MachineReport::of(&self.words()?).ok_or_else(|| PhantomError::State(self.state()))
    }

    /// Returns the ids of the processes that hold memory of these GPUs now.
    ///
    /// # Errors
    /// Fails if the machine's state cannot be read any more.
    pub fn processes(&self) -> Result<Vec<u32>, PhantomError> {
        let words = self.words()?;
        State::new(&words).map(|state| state.running()).ok_or_else(|| PhantomError::State(self.state()))
    }

    fn words(&self) -> Result<Vec<AtomicU64>, PhantomError> {
        let bytes = std::fs::read(self.state()).map_err(|_| PhantomError::State(self.state()))?;
        let word = |bytes: &[u8; 8]| AtomicU64::new(u64::from_le_bytes(*bytes));
        Ok(bytes.as_chunks().0.iter().map(word).collect())
    }
}
