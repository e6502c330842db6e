//! Versions of the implemented libraries: the phantom reports the versions of the program's own libraries. PyTorch loads
//! NVIDIA's libraries although the phantom replaces them, and they report their versions without a GPU.

use std::ffi::{CStr, CString, OsString, c_int};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use vramscope_bare::sys;

use crate::machine::machine;
use crate::objects;

/// Versions for a program without its own libraries: those that ship with PyTorch 2.11.
const CUDA: usize = 13_000;
const CUBLAS: usize = 130_100;
const CUDNN: usize = 91_900;
const NCCL: usize = 22_809;

/// A library's version, cached once it is known.
struct Version {
    /// The prefix of the library's file name, its version function, and how that function returns the version.
    library: &'static str,
    function: &'static CStr,
    says: Says,
    otherwise: usize,
    known: OnceLock<usize>,
}

/// How a version function returns the version.
enum Says {
    /// As its return value.
    Returned,
    /// Through a pointer argument; the return value is a status.
    Written,
}

impl Version {
    const fn new(library: &'static str, function: &'static CStr, says: Says, otherwise: usize) -> Self {
        Self { library, function, says, otherwise, known: OnceLock::new() }
    }

    fn get(&self) -> usize {
        if let Some(&version) = self.known.get() {
            return version;
        }
        // While the library is not loaded, do not cache: the version may change.
        self.ask().map_or(self.otherwise, |version| *self.known.get_or_init(|| version))
    }

    /// Calls the version function of the program's own library.
    fn ask(&self) -> Option<usize> {
        let path = CString::new(objects::path_of(self.library)?).ok()?;
        // SAFETY: the path ends with a zero, and RTLD_NOLOAD loads nothing.
        let library = unsafe { sys::dlopen(path.as_ptr(), sys::RTLD_NOW | sys::RTLD_NOLOAD) };
        if library.is_null() {
            return None;
        }
        // SAFETY: the library is loaded, and the name ends with a zero.
        let function = unsafe { sys::dlsym(library, self.function.as_ptr()) };
        if function.is_null() {
            return None;
        }
        match self.says {
            Says::Returned => {
                // SAFETY: NVIDIA's headers declare the functions below with this type.
                let function = unsafe { std::mem::transmute::<*mut _, extern "C" fn() -> usize>(function) };
                Some(function())
            }
            Says::Written => {
                // SAFETY: as above.
                let function =
                    unsafe { std::mem::transmute::<*mut _, extern "C" fn(*mut c_int) -> c_int>(function) };
                let mut version = 0;
                (function(&raw mut version) == 0 && version > 0).then_some(version as usize)
            }
        }
    }
}

/// The CUDA runtime's version, as `1000 * major + 10 * minor`: the CUDA release that the program was built for.
pub(crate) fn runtime() -> c_int {
    static RUNTIME: Version = Version::new("libcudart.so.", c"cudaRuntimeGetVersion", Says::Written, CUDA);
    RUNTIME.get() as c_int
}

/// The version of cuBLAS and cuBLASLt, which is always the same.
pub(crate) fn cublas() -> usize {
    static CUBLAS_LT: Version =
        Version::new("libcublasLt.so.", c"cublasLtGetVersion", Says::Returned, CUBLAS);
    CUBLAS_LT.get()
}

/// Environment variable with the path of another cuDNN than the program's, or of its folder.
const OTHER_CUDNN: &str = "VRAMSCOPE_PHANTOM_CUDNN";

/// The path of another cuDNN than the program's, or of its folder, if it is wanted.
pub(crate) fn other_cudnn() -> Option<PathBuf> {
    std::env::var_os(OTHER_CUDNN).filter(|path| !path.is_empty()).map(PathBuf::from)
}

pub(crate) fn cudnn() -> usize {
    static LIBRARY: Version = Version::new("libcudnn.so.", c"cudnnGetVersion", Says::Returned, CUDNN);
    if other_cudnn().is_none() {
        return LIBRARY.get();
    }
    // The own library would load its parts, and the other one would take them for its own.
    objects::path_of("libcudnn.so.").and_then(|path| version_of_file(Path::new(&path))).unwrap_or(CUDNN)
}

/// The version of cuDNN in the name of a file, or of the wheel that has it, as `10000 * major + 100 * minor + patch`.
fn version_of_file(path: &Path) -> Option<usize> {
    let file = path.canonicalize().ok()?;
    let of_name = |name: &str| {
        let mut numbers = name.split(['.', '-']).map_while(|part| part.parse::<usize>().ok());
        Some(10_000 * numbers.next()? + 100 * numbers.next()? + numbers.next()?)
    };
    let name = file.file_name()?.to_str()?;
    if let Some(version) = name.strip_prefix("libcudnn.so.").and_then(of_name) {
        return Some(version);
    }
    let wheels = file.ancestors().nth(4)?.read_dir().ok()?;
    let wheel = |name: OsString| of_name(name.to_str()?.strip_prefix("nvidia_cudnn_")?.split_once('-')?.1);
    wheels.flatten().find_map(|entry| wheel(entry.file_name()))
}

/// The runtime version that cuDNN was built with.
pub(crate) fn cudnn_runtime() -> usize {
    static LIBRARY: Version = Version::new("libcudnn.so.", c"cudnnGetCudartVersion", Says::Returned, CUDA);
    if other_cudnn().is_none() { LIBRARY.get() } else { runtime() as usize }
}

pub(crate) fn nccl() -> c_int {
    static LIBRARY: Version = Version::new("libnccl.so.", c"ncclGetVersion", Says::Written, NCCL);
    LIBRARY.get() as c_int
}

/// The driver's version: the run's setting, or else the runtime's version.
pub(crate) fn driver() -> c_int {
    match machine().state.cuda_version() {
        0 => runtime(),
        version => version as c_int,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_cudnn_is_in_the_name_of_its_file_or_wheel() {
        let site = std::env::temp_dir().join(format!("vramscope-version-{}", std::process::id()));
        let folder = site.join("nvidia/cudnn/lib");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::create_dir_all(site.join("nvidia_cudnn_cu13-9.19.0.56.dist-info")).unwrap();
        for (name, expected) in [("libcudnn.so.9", 91_900), ("libcudnn.so.9.10.2", 91_002)] {
            std::fs::write(folder.join(name), "").unwrap();
            assert_eq!(version_of_file(&folder.join(name)), Some(expected));
        }
        assert_eq!(version_of_file(&site.join("libcudnn.so.9")), None);
        std::fs::remove_dir_all(&site).unwrap();
    }
}
