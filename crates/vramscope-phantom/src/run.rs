//! A machine with phantom GPUs on disk: the libraries, and the state that all processes share.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use vramscope_files::PrivateFolder;

use crate::machine::{MachineReport, PhantomGpu};
use crate::state::{DEVICES, State, WORDS};

/// The phantom's library; empty where there is none for this system.
const DRIVER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libcuda.so.1"));

/// Names of files in a run's folder: the phantom's library, and the state that all processes share.
const LIBRARY: &str = "libcuda.so.1";
const STATE: &str = "state";

/// The library that lends it NVML's name.
const NVML: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libnvidia-ml.so.1"));

/// Why there is no phantom GPU.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PhantomError {
    /// The library works with glibc's loader.
    #[error("phantom GPUs are for Linux with glibc, on x86-64 and aarch64")]
    NoLibrary,
    /// No GPU, or too many.
    #[error("a machine has 1 to {DEVICES} phantom GPUs, not {0}")]
    Devices(usize),
    /// The folder cannot be written.
    #[error("no folder for the phantom's files in {}: {}", folder.display(), in_words(why))]
    Folder {
        /// Where it was to be.
        folder: PathBuf,
        /// What the system says.
        why: io::Error,
    },
    /// The loader takes a space or a colon in a path for its end.
    #[error("{} holds a space or a colon, which LD_PRELOAD cannot name: set TMPDIR to a folder without", .0.display())]
    FolderName(PathBuf),
    /// The state is gone or is none.
    #[error("{}: is no state of a run", .0.display())]
    State(PathBuf),
}

/// What is wrong with a folder, and what to do.
fn in_words(why: &io::Error) -> String {
    match why.get_ref() {
        Some(why) => format!("{why}; set TMPDIR to one that only you can write to"),
        None => format!("{}; set TMPDIR to one that can be written", why.kind()),
    }
}

/// How a machine answers.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct PhantomOptions {
    /// Fill what programs read from a GPU with numbers made from this seed, instead of zeros.
    pub random_values: Option<u64>,
    /// The newest CUDA that the driver serves, as `1000 * major + 10 * minor`; by default what the program was made for.
    pub cuda_version: Option<u32>,
    /// The other ranks of every communicator of NCCL are pretended: they say what the one says that there is.
    pub pretend_ranks: bool,
    /// Keep no contents of copies to a GPU of more than 64 KiB: they read as zeros, and take no memory of the host.
    pub no_contents: bool,
}

/// A machine with phantom GPUs. It lasts as long as this value; processes that still run then keep what they have.
#[derive(Debug)]
pub struct PhantomRun {
    folder: PrivateFolder,
}

impl PhantomRun {
    /// Makes a machine with these GPUs.
    ///
    /// # Errors
    /// Where this system has no phantom, or the machine no folder for its files; for no GPU and for more than 16.
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
        let run = Self { folder };
        run.fill(gpus, options).map_err(failed)?;
        Ok(run)
    }

    fn fill(&self, gpus: &[PhantomGpu], options: PhantomOptions) -> io::Result<()> {
        let dir = self.folder.dir();
        dir.write_new(LIBRARY.as_ref(), DRIVER)?;
        dir.write_new("libnvidia-ml.so.1".as_ref(), NVML)?;
        // What links to the driver by its plain name, as Triton does.
        #[cfg(unix)]
        std::os::unix::fs::symlink(LIBRARY, self.path("libcuda.so"))?;
        let words: Vec<AtomicU64> = (0..WORDS).map(|_| AtomicU64::new(0)).collect();
        let state = State::begin(&words, options.cuda_version.unwrap_or(0).into(), options.random_values);
        gpus.iter().for_each(|gpu| gpu.add_to(state));
        if options.pretend_ranks {
            state.pretend_ranks();
        }
        if options.no_contents {
            state.keep_no_contents();
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

    /// The folder of the machine's files. More may be put there, and goes with it.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Variables of the environment with which a program finds these GPUs; they stand before what this process's own hold.
    pub fn environment(&self) -> Vec<(&'static str, OsString)> {
        vec![
            ("VRAMSCOPE_PHANTOM_STATE", self.state().into()),
            ("LD_PRELOAD", with_first(&self.library(), "LD_PRELOAD")),
            ("LD_LIBRARY_PATH", with_first(self.folder(), "LD_LIBRARY_PATH")),
            ("TRITON_LIBCUDA_PATH", self.folder().into()),
        ]
    }

    /// What became of the machine until now.
    ///
    /// # Errors
    /// Where its state cannot be read any more.
    pub fn report(&self) -> Result<MachineReport, PhantomError> {
        MachineReport::of(&self.words()?).ok_or_else(|| PhantomError::State(self.state()))
    }

    /// The processes that hold memory of these GPUs now, by their ids.
    ///
    /// # Errors
    /// Where the machine's state cannot be read any more.
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

/// A list of paths for a variable of the environment: `first`, and then what this process's own variable holds.
pub fn with_first(first: &Path, variable: &str) -> OsString {
    let mut paths = first.as_os_str().to_owned();
    if let Some(rest) = std::env::var_os(variable).filter(|rest| !rest.is_empty()) {
        paths.push(":");
        paths.push(rest);
    }
    paths
}
