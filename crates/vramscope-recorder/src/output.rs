//! The file of a new recording. An earlier recording is replaced only if the user asks for it.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use vramscope_files::with_suffix;

/// Endings of the names of recordings, whose files for ranks, processes and moments belong together.
const ENDINGS: [&str; 3] = ["vramscope", "pickle", "pkl"];
/// What follows the name of a recording in the names of its other files. Digits follow the first two.
const PARTS: [&str; 4] = ["-rank", "-pid", "-before", "-at-"];
/// The part of a file's name that stands for the time.
const TIME: &str = "%t";

/// Why a recording cannot be written to a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutputError {
    /// The folder of the recording does not exist.
    #[error("{}: the folder for the recording does not exist", .0.display())]
    NoFolder(PathBuf),
    /// The name of the recording is that of a folder.
    #[error("{}: is a directory; name a file in {}", name.display(), parent.display())]
    IsFolder {
        /// The name, as it was given.
        name: PathBuf,
        /// The folder that contains it.
        parent: PathBuf,
    },
    /// There is an earlier recording.
    #[error("{}: already exists; name another file (%t in a name stands for the time), or replace it with --force", .0.display())]
    Exists(PathBuf),
}

/// The file of a new recording.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewRecording {
    /// Absolute path of the file.
    pub path: PathBuf,
    /// The usual file, if an earlier recording has it.
    pub taken: Option<PathBuf>,
}

impl NewRecording {
    /// Chooses the file of a recording: `named` by the user, else `usual`. `%t` in its name stands for the time, as 20260131-235959 (UTC).
    ///
    /// If `usual` or a name with a time exists, or a file of its ranks and processes, the name gets a number, as `run-2.vramscope`.
    /// `replaces` allows an existing file. Pipes, devices and empty files have no recording that could be lost.
    ///
    /// # Errors
    /// The folder does not exist, the file is a folder, or the file that the user names exists.
    pub fn choose(named: Option<&Path>, usual: &str, replaces: bool) -> Result<Self, OutputError> {
        let given = named.unwrap_or(Path::new(usual));
        let name = given.file_name().and_then(OsStr::to_str).filter(|name| name.contains(TIME));
        let out = match name {
            Some(name) => given.with_file_name(name.replace(TIME, &time(SystemTime::now()))),
            None => given.to_owned(),
        };
        let out = std::path::absolute(&out).unwrap_or(out);
        let Some(parent) = out.parent().filter(|folder| folder.is_dir()) else {
            return Err(OutputError::NoFolder(given.to_owned()));
        };
        if out.is_dir() {
            return Err(OutputError::IsFolder { name: given.to_owned(), parent: parent.to_owned() });
        }
        match existing(&out).filter(|_| !replaces) {
            Some(existing) if named.is_some() && name.is_none() => Err(OutputError::Exists(existing)),
            Some(taken) => Ok(Self { path: free(&out), taken: Some(taken) }),
            None => Ok(Self { path: out, taken: None }),
        }
    }

    /// A sentence about a name with a number; `None` if the file has its usual name.
    pub fn note(&self) -> Option<String> {
        let taken = self.taken.as_ref()?;
        Some(format!("{} exists already: this recording is {}", taken.display(), self.path.display()))
    }
}

/// The path itself, or the first one with a number at the end of its name that no recording has.
pub fn free(path: &Path) -> PathBuf {
    let numbered = (2_u32..).map(|number| with_suffix(path, &format!("-{number}")));
    std::iter::once(path.to_owned()).chain(numbered).find(|path| existing(path).is_none()).unwrap_or_default()
}

/// A file of the recording at `path`; `None` if nothing could be lost there.
fn existing(path: &Path) -> Option<PathBuf> {
    if has_contents(path) {
        return Some(path.to_owned());
    }
    let ending = path.extension().filter(|ending| ENDINGS.iter().any(|known| ending == known))?;
    let stem = path.file_stem()?.to_str()?;
    let is_part = |name: &Path| {
        let rest = name.file_stem().and_then(OsStr::to_str).and_then(|name| name.strip_prefix(stem));
        name.extension() == Some(ending)
            && rest.is_some_and(|rest| {
                PARTS.iter().enumerate().any(|(i, part)| {
                    let after = rest.strip_prefix(part);
                    after.is_some_and(|after| i > 1 || after.starts_with(|c: char| c.is_ascii_digit()))
                })
            })
    };
    let entries = fs::read_dir(path.parent()?).ok()?.flatten();
    entries.map(|entry| entry.path()).filter(|path| is_part(path) && has_contents(path)).min()
}

/// Whether a path is a regular file with contents, or one that this user cannot examine.
pub(crate) fn has_contents(path: &Path) -> bool {
    match fs::metadata(path) {
        Ok(file) => file.is_file() && file.len() > 0,
        Err(error) => error.kind() != io::ErrorKind::NotFound && fs::symlink_metadata(path).is_ok(),
    }
}

/// A time in a file's name.
fn time(now: SystemTime) -> String {
    let seconds = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    // Years begin in March, so that a leap day is the last day of its year.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}{month:02}{day:02}-{hour:02}{minute:02}{second:02}")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (seconds, expected) in [
            (0, "19700101-000000"),
            (951_782_399, "20000228-235959"),
            (951_782_400, "20000229-000000"),
            (1_709_251_199, "20240229-235959"),
            (1_767_225_599, "20251231-235959"),
            (4_107_542_399, "21000228-235959"),
            (4_107_542_400, "21000301-000000"),
        ] {
            assert_eq!(time(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)), expected);
        }
    }

    #[test]
    fn an_earlier_recording_is_never_chosen() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let named =
            |name: &str, replaces| NewRecording::choose(Some(&path(name)), "", replaces).map(|new| new.path);
        let usual = |name: &str| {
            let new = NewRecording::choose(None, path(name).to_str().unwrap(), false).unwrap();
            (new.path.file_name().unwrap().to_str().unwrap().to_owned(), new.taken.is_some())
        };
        assert_eq!(usual("run.vramscope"), ("run.vramscope".to_owned(), false));
        // An empty file, and files that are no recordings of this name.
        for name in ["run.vramscope", "run-rankle.vramscope", "runner.vramscope", "run-rank0.pickle"] {
            fs::write(path(name), if name == "run.vramscope" { "" } else { "x" }).unwrap();
        }
        assert_eq!(usual("run.vramscope"), ("run.vramscope".to_owned(), false));
        for (name, number) in
            [("run.vramscope", 2), ("run-2-rank0.vramscope", 3), ("run-3-at-oom.vramscope", 4)]
        {
            fs::write(path(name), "x").unwrap();
            assert_eq!(usual("run.vramscope"), (format!("run-{number}.vramscope"), true));
        }
        assert!(matches!(named("run.vramscope", false), Err(OutputError::Exists(_))));
        assert!(
            matches!(named("run-2.vramscope", false), Err(OutputError::Exists(of)) if of.ends_with("run-2-rank0.vramscope"))
        );
        assert_eq!(named("run.vramscope", true).unwrap(), path("run.vramscope"));
        assert_eq!(named("/dev/full", false).unwrap(), Path::new("/dev/full"));
        assert!(matches!(named("none/run.vramscope", false), Err(OutputError::NoFolder(_))));
        assert!(matches!(named("", false), Err(OutputError::IsFolder { .. })));
    }

    #[test]
    fn a_name_with_the_time_is_always_new() {
        let folder = tempfile::tempdir().unwrap();
        let mut names = Vec::new();
        for _ in 0..3 {
            let new = NewRecording::choose(Some(&folder.path().join("run-%t.vramscope")), "", false).unwrap();
            fs::write(&new.path, "x").unwrap();
            names.push(new.path);
        }
        names.dedup();
        assert_eq!(names.len(), 3);
        assert!(names.iter().all(|name| !name.to_string_lossy().contains('%')));
    }
}
