//! The program's own cuDNN, which answers without a GPU: since 9.8 a descriptor of a device's properties takes the place of a handle
//! (cudnn_graph.h, `CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR`).

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use vramscope_bare::sys;

use crate::machine::machine;
use crate::state::{Fact, Noticed};
use crate::threads::current_device;
use crate::{objects, version};

/// The library with the graphs of operations, beside `libcudnn.so.9`.
const FILE: &str = "libcudnn_graph.so.9";

/// The first version that makes a device from JSON.
const FIRST: usize = 90_800;

/// The first version that does not crash for compute capability 10.0.
const FIRST_FOR_10: usize = 91_100;

/// `CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR`, `CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION` and `CUDNN_TYPE_CHAR`.
const DEVICE: c_int = 38;
const JSON: c_int = 2702;
const CHARACTER: c_int = 24;

type Create = extern "C" fn(c_int, *mut usize) -> c_int;
type OfDescriptor = extern "C" fn(usize) -> c_int;
type Set = extern "C" fn(usize, c_int, c_int, i64, *const u8) -> c_int;
type Get = extern "C" fn(usize, c_int, c_int, i64, *mut i64, *mut u8) -> c_int;
type LastError = extern "C" fn(*mut c_char, usize);

/// The functions of a cuDNN.
pub(crate) struct Own {
    create: Create,
    destroy: OfDescriptor,
    finalize: OfDescriptor,
    set: Set,
    get: Get,
    last_error: LastError,
    /// The descriptor of each GPU of the machine.
    devices: Vec<usize>,
    /// What the sizes are if another library answers than the program's.
    model: Option<String>,
}

/// Returns the cuDNN that answers, or a text about the workspaces that are left out.
pub(crate) fn cudnn() -> Result<&'static Own, &'static str> {
    static FOUND: OnceLock<Result<Own, String>> = OnceLock::new();
    FOUND.get_or_init(find).as_ref().map_err(String::as_str)
}

fn find() -> Result<Own, String> {
    let other = version::other_cudnn();
    let own = || {
        objects::path_of("libcudnn_graph.so.").map(PathBuf::from).or_else(|| {
            let folder = objects::path_of("libcudnn.so.").map(PathBuf::from)?;
            Some(folder.parent()?.join(FILE))
        })
    };
    let path = match &other {
        Some(path) if path.is_dir() => path.join(FILE),
        Some(path) => path.clone(),
        None => own().ok_or_else(|| format!("workspaces of cuDNN: the program has no {FILE}"))?,
    };
    load(&path, other.is_some())
}

fn load(path: &Path, is_other: bool) -> Result<Own, String> {
    let absent = || format!("workspaces of cuDNN: {FILE} does not load");
    let name = CString::new(path.as_os_str().as_encoded_bytes()).map_err(|_| absent())?;
    // SAFETY: the path ends with a zero.
    let library = unsafe { sys::dlopen(name.as_ptr(), sys::RTLD_NOW) };
    if library.is_null() {
        return Err(absent());
    }
    let function = |name: &CStr| {
        // SAFETY: the library is loaded, and the name ends with a zero.
        let found = unsafe { sys::dlsym(library, name.as_ptr()) };
        if found.is_null() { Err(absent()) } else { Ok(found) }
    };
    // SAFETY: cudnn_graph.h declares the functions below with these types.
    let own = unsafe {
        let version: extern "C" fn() -> usize = std::mem::transmute(function(c"cudnnGetVersion")?);
        let version = version();
        is_answering(version)?;
        let runtime: extern "C" fn() -> usize = std::mem::transmute(function(c"cudnnGetCudartVersion")?);
        let blas = format!("libcublasLt.so.{}", runtime() / 1000);
        if !has_library(path, &blas) {
            return Err(format!("workspaces of cuDNN {}, which needs {blas}", text(version)));
        }
        let mut own = Own {
            create: std::mem::transmute::<*mut c_void, Create>(function(c"cudnnBackendCreateDescriptor")?),
            destroy: std::mem::transmute::<*mut c_void, OfDescriptor>(function(
                c"cudnnBackendDestroyDescriptor",
            )?),
            finalize: std::mem::transmute::<*mut c_void, OfDescriptor>(function(c"cudnnBackendFinalize")?),
            set: std::mem::transmute::<*mut c_void, Set>(function(c"cudnnBackendSetAttribute")?),
            get: std::mem::transmute::<*mut c_void, Get>(function(c"cudnnBackendGetAttribute")?),
            last_error: std::mem::transmute::<*mut c_void, LastError>(function(c"cudnnGetLastErrorString")?),
            devices: Vec::new(),
            model: is_other.then(|| {
                format!("workspaces of cuDNN {}, by cuDNN {}", text(version::cudnn()), text(version))
            }),
        };
        let devices = (0..machine().state.devices()).map(|device| own.make_device(device));
        let refused = || format!("workspaces of cuDNN {}, which refuses the GPU", text(version));
        own.devices = devices.collect::<Option<_>>().ok_or_else(refused)?;
        own
    };
    Ok(own)
}

/// Whether a version answers for the GPUs of this machine.
fn is_answering(version: usize) -> Result<(), String> {
    let is_10 = |device| machine().fact(device, Fact::ComputeCapability) == 100;
    if version < FIRST {
        return Err(format!("workspaces of cuDNN {}, older than {}", text(version), text(FIRST)));
    }
    if version < FIRST_FOR_10 && (0..machine().state.devices()).any(is_10) {
        return Err(format!("workspaces of cuDNN {} at compute capability 10.0", text(version)));
    }
    Ok(())
}

/// Loads a library by its name, from the usual folders or those of NVIDIA's wheels beside cuDNN. cuDNN ends the process if it is missing.
fn has_library(cudnn: &Path, name: &str) -> bool {
    let wheels = cudnn.ancestors().nth(3).unwrap_or(cudnn);
    let folders = ["cublas/lib", "cu12/lib", "cu13/lib"].map(|folder| wheels.join(folder).join(name));
    [PathBuf::from(name)].iter().chain(&folders).any(|path| {
        // SAFETY: the path ends with a zero.
        CString::new(path.as_os_str().as_encoded_bytes())
            .is_ok_and(|path| !unsafe { sys::dlopen(path.as_ptr(), sys::RTLD_LAZY) }.is_null())
    })
}

/// The text of a version.
fn text(version: usize) -> String {
    format!("{}.{}.{}", version / 10_000, version / 100 % 100, version % 100)
}

impl Own {
    pub(crate) fn create(&self, kind: c_int, descriptor: &mut usize) -> c_int {
        (self.create)(kind, descriptor)
    }

    pub(crate) fn destroy(&self, descriptor: usize) -> c_int {
        (self.destroy)(descriptor)
    }

    pub(crate) fn finalize(&self, descriptor: usize) -> c_int {
        (self.finalize)(descriptor)
    }

    pub(crate) fn set(
        &self,
        descriptor: usize,
        name: c_int,
        kind: c_int,
        count: i64,
        elements: *const u8,
    ) -> c_int {
        (self.set)(descriptor, name, kind, count, elements)
    }

    pub(crate) fn get(
        &self,
        descriptor: usize,
        name: c_int,
        kind: c_int,
        wanted: i64,
        count: *mut i64,
        elements: *mut u8,
    ) -> c_int {
        (self.get)(descriptor, name, kind, wanted, count, elements)
    }

    /// An attribute of a descriptor that is one integer.
    pub(crate) fn number(&self, descriptor: usize, name: c_int) -> Option<i64> {
        /// `CUDNN_TYPE_INT64`.
        const INTEGER: c_int = 3;
        let (mut value, mut count) = (0i64, 0);
        let status = self.get(descriptor, name, INTEGER, 1, &raw mut count, (&raw mut value).cast());
        (descriptor != 0 && status == 0 && count == 1).then_some(value)
    }

    /// The message of the last failed call, as far as it fits.
    pub(crate) fn last_error(&self) -> String {
        let mut bytes = [0u8; 1024];
        (self.last_error)(bytes.as_mut_ptr().cast(), bytes.len());
        CStr::from_bytes_until_nul(&bytes)
            .map_or_else(|_| String::new(), |text| text.to_string_lossy().into_owned())
    }

    /// Notes that a size is a model's, if it is.
    pub(crate) fn notice_model(&self) {
        if let Some(model) = &self.model {
            machine().notice(Noticed::Modeled, model);
        }
    }

    /// The descriptor of this thread's GPU.
    pub(crate) fn device(&self) -> usize {
        current_device().ok().and_then(|device| self.devices.get(device).copied()).unwrap_or(0)
    }

    fn make_device(&self, device: usize) -> Option<usize> {
        let json = properties(device);
        let mut descriptor = 0;
        let is_made = self.create(DEVICE, &mut descriptor) == 0
            && self.set(descriptor, JSON, CHARACTER, json.len() as i64, json.as_ptr()) == 0
            && self.finalize(descriptor) == 0;
        is_made.then_some(descriptor)
    }
}

/// A device's properties, as cuDNN's JSON. Heuristics depend on the compute capability, hardly on anything else.
fn properties(device: usize) -> String {
    let fact = |fact| machine().fact(device, fact);
    let capability = 10 * fact(Fact::ComputeCapability);
    let driver = version::driver();
    let name: String = machine().state.name(device).chars().filter(|c| !matches!(c, '"' | '\\')).collect();
    let numbers: [(&str, u64); 26] = [
        ("smVersion", capability),
        ("deviceVer", capability),
        ("driverVer", driver as u64),
        ("driverVersion", driver as u64),
        ("cudaDeviceId", 0),
        ("deviceId", 0),
        ("totalGlobalMem", fact(Fact::TotalBytes)),
        ("multiProcessorCount", fact(Fact::Multiprocessors)),
        ("warpSize", 32),
        ("regsPerBlock", 65_536),
        ("maxRegistersPerSM", 65_536),
        ("maxSharedMemoryPerBlock", 48 << 10),
        ("maxSharedMemoryPerBlockOptin", fact(Fact::SharedPerBlock)),
        ("reservedSharedMemoryPerBlock", if capability < 800 { 0 } else { 1 << 10 }),
        ("oversizedSharedMemoryPerBlock", 0),
        ("maxCtasPerSM", fact(Fact::BlocksPerMultiprocessor)),
        ("maxThreadsPerBlock", 1024),
        ("maxThreadsPerSM", fact(Fact::ThreadsPerMultiprocessor)),
        ("pciDeviceId", 0),
        ("isTccDriver", 0),
        ("supportCoopLaunch", 1),
        ("smClockRateKHz", 1_500_000),
        ("memClockRateKHz", 2_000_000),
        ("memoryBusWidth", fact(Fact::BusBits)),
        ("l2CacheSize", fact(Fact::L2Bytes)),
        ("smCountOrigin", 0),
    ];
    let numbers: String = numbers.iter().map(|(key, value)| format!("\"{key}\":{value},")).collect();
    format!(
        "{{{numbers}\"deviceName\":\"{name}\",\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64]}}"
    )
}
