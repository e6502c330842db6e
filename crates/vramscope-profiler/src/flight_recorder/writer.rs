//! Writes bundles into a folder, within limits on their number and size.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;
use vramscope_basics::lock;
use vramscope_files::Dir;
use vramscope_report::write_json;

use super::contents::{Bounded, Bundle, BundleMetadata, Contents, SNAPSHOT, too_large};
use super::folder::{
    MANIFEST, MANIFEST_ROOM, Manifest, RemovableBundle, is_abandoned, is_bundle_name, is_mine, read_manifest,
    remove_oldest, size, writer_of,
};

/// A folder of bundles: the only writer of their format. [`FlightRecorder`](super::FlightRecorder) describes both. It also writes the bundles
/// of programs without a [`MemoryPool`](vramscope_allocator::MemoryPool), such as a Python program with PyTorch.
pub struct BundleFolder {
    path: PathBuf,
    max_bundles: usize,
    max_total_bytes: u64,
    /// Locked while a bundle is written, so that only one is written at a time.
    writer: Mutex<()>,
}

/// A bundle that was written.
#[derive(Debug)]
pub struct WrittenBundle {
    /// The time of the bundle, in microseconds since the Unix epoch.
    pub time_us: i64,
    /// The bundle's folder.
    pub path: PathBuf,
    /// The error of removing an older bundle.
    pub removal_error: Option<String>,
}

impl BundleFolder {
    /// The folder at `path`, which must exist when a bundle is written. It keeps at most `max_bundles` bundles with at most
    /// `max_total_bytes` bytes in total.
    pub fn new(path: PathBuf, max_bundles: usize, max_total_bytes: u64) -> Self {
        Self { path, max_bundles, max_total_bytes, writer: Mutex::default() }
    }

    /// The folder's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the bundle of a program without a pool.
    ///
    /// # Errors
    /// The bundle cannot be written. The error does not contain the folder's path.
    pub fn write(&self, bundle: Bundle) -> io::Result<WrittenBundle> {
        let now = Timestamp::now();
        let metadata = bundle.metadata.clone();
        let contents = Contents::of_program(bundle, self.max_total_bytes);
        self.write_contents(now, Manifest::default(), &metadata, &contents)
    }

    /// Writes a bundle and removes the bundles that it replaces. Completes the manifest.
    pub(super) fn write_contents(
        &self,
        now: Timestamp,
        manifest: Manifest,
        metadata: &BundleMetadata,
        contents: &Contents,
    ) -> io::Result<WrittenBundle> {
        /// Shared by all folders of the process, because two may have the same path.
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        let _one_at_a_time = lock(&self.writer);
        let time_us = now.as_microsecond();
        let mut manifest =
            manifest.completed(time_us, &metadata.reason, metadata.exception_message.as_deref());
        let mut removal_error = None;
        // Another process may have taken the name: processes in containers that share the folder may have the same id.
        let next = || {
            let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
            format!("oom_dump_{}_{}_{number}", now.strftime("%Y%m%dT%H%M%SZ"), std::process::id())
        };
        let root = Dir::open(&self.path)?;
        let (dir, name) = loop {
            let name = format!(".{}.part", next());
            match root.new_subdir(name.as_ref(), 0o755) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                made => break (made?, name),
            }
        };
        let beside = self.path.join(&name);
        // On file systems with locks, the lock tells other processes that the bundle is being written.
        let mark = File::open(&beside).ok();
        let _marked = mark.as_ref().map(File::try_lock);
        let whole = self.fill(&dir, &beside, contents, &mut manifest, &mut removal_error).and_then(|()| {
            loop {
                let becomes = next();
                let bundle = self.path.join(&becomes);
                match root.rename(name.as_ref(), becomes.as_ref()) {
                    Err(_) if bundle.exists() => {}
                    renamed => {
                        return renamed.and_then(|()| root.check_is(becomes.as_ref(), &dir)).map(|()| bundle);
                    }
                }
            }
        });
        match &whole {
            // Other processes may have written bundles in the meantime; the last one to finish restores the limits.
            Ok(_) => {
                let (bundles, _) = self.survey(None, &mut removal_error);
                let most = (self.max_bundles, self.max_total_bytes);
                remove_oldest(bundles, most, &mut removal_error);
            }
            Err(_) => {
                dir.remove_contents().and_then(|()| root.remove_subdir(name.as_ref())).ok();
            }
        }
        whole.map(|path| WrittenBundle { time_us, path, removal_error })
    }

    /// Writes the files of a bundle into `dir`, whose path is `folder`. A file that fails is left out and named in the manifest.
    fn fill(
        &self,
        dir: &Dir,
        folder: &Path,
        contents: &Contents,
        manifest: &mut Manifest,
        removal_error: &mut Option<String>,
    ) -> io::Result<()> {
        // Room for the manifest is reserved at the start; its contents are written last.
        let mut place = dir.create_new(MANIFEST.as_ref(), 0o644)?;
        self.make_room(folder, MANIFEST_ROOM, removal_error)?;
        place.set_len(MANIFEST_ROOM)?;
        let mut add = |name: &str, bytes: u64, write: &dyn Fn(&mut dyn Write) -> io::Result<()>| {
            // The file is created at its full size, before older bundles are removed for it, so that other processes see how much space it
            // will take.
            let file = dir.create_new(name.as_ref(), 0o644)?;
            let written = self.make_room(folder, bytes, removal_error).and_then(|()| {
                file.set_len(bytes)?;
                let mut out = BufWriter::new(&file);
                write(&mut out)?;
                out.flush()?;
                file.sync_all()
            });
            if written.is_err() {
                drop(file);
                dir.remove_file(name.as_ref())?;
            }
            io::Result::Ok(written)
        };
        for (name, text) in &contents.texts {
            let written = match text {
                Ok(text) => add(name, text.len() as u64, &|out| out.write_all(text))?,
                Err(e) => Err(io::Error::other(e.to_string())),
            };
            manifest.note_file(name, written);
        }
        if let Some(snapshot) = &contents.snapshot {
            let written = match snapshot {
                Ok(snapshot) => add(SNAPSHOT, snapshot.bytes(), &|out| snapshot.write(out))?,
                Err(e) => Err(io::Error::other(e.to_string())),
            };
            manifest.note_file(SNAPSHOT, written);
        }
        manifest.files.push(MANIFEST.to_owned());
        let mut text = Bounded { out: Vec::new(), room: MANIFEST_ROOM };
        write_json(&mut text, manifest)?;
        place.set_len(0)?;
        place.write_all(&text.out)?;
        place.sync_all()
    }

    /// Removes the oldest bundles until `bytes` more fit. Removes none if even that is not enough.
    fn make_room(&self, own: &Path, bytes: u64, removal_error: &mut Option<String>) -> io::Result<()> {
        let (bundles, being_written) = self.survey(Some(own), removal_error);
        let room = self.max_total_bytes;
        if size(own) + bytes > room {
            return Err(too_large());
        }
        let Some(room) = room.checked_sub(being_written + bytes) else {
            let why = "other bundles are being written, and max_total_bytes leaves no room for this one";
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
        };
        remove_oldest(bundles, (usize::MAX, room), removal_error);
        Ok(())
    }

    /// Returns this user's finished and abandoned bundles in the folder, in the order of removal, and the bytes of bundles that are being
    /// written, including `own`. Bundles of other users are neither counted nor removed.
    fn survey(&self, own: Option<&Path>, trouble: &mut Option<String>) -> (Vec<RemovableBundle>, u64) {
        let (mut bundles, mut being_written) = (Vec::new(), 0);
        let entries = match fs::read_dir(&self.path) {
            Ok(entries) => entries,
            Err(e) => {
                *trouble = Some(format!("{}: {e}", self.path.display()));
                return (bundles, being_written);
            }
        };
        for entry in entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
            let (name, path) = (entry.file_name(), entry.path());
            let name = name.to_string_lossy();
            if !is_mine(&path) {
                continue;
            }
            if let Some(pid) = writer_of(&name) {
                let is_own = own == Some(&path);
                if !is_own && is_abandoned(&path, pid) {
                    bundles.push(RemovableBundle { time_us: None, path, bytes: 0 });
                } else {
                    being_written += size(&path);
                }
            } else if is_bundle_name(&name)
                && let Some(manifest) = read_manifest(&path)
            {
                bundles.push(RemovableBundle { time_us: Some(manifest.time_us), bytes: size(&path), path });
            }
        }
        bundles.sort();
        (bundles, being_written)
    }
}
