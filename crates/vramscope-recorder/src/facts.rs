//! How a process is recorded, as far as other processes see it: its command, the machine, and the versions of its libraries.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

/// Longest text in bytes.
const MOST_TEXT: usize = 4096;
/// Parts of the names of options and variables whose values are not written.
const SECRETS: [&str; 8] = ["token", "secret", "passw", "api-key", "api_key", "apikey", "credential", "auth"];
/// First parts of texts that are secrets of well-known services.
const KEYS: [&str; 7] = ["hf_", "sk-", "ghp_", "github_pat_", "glpat-", "AKIA", "xoxb-"];
/// What stands for a secret.
const MASK: &str = "***";

/// The statements about a process: names and texts. What cannot be read is missing.
pub(crate) fn of(process: u32) -> Vec<(&'static str, String)> {
    let read = |path: &str| fs::read_to_string(path).ok().map(|text| text.trim_end().to_owned());
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let maps = fs::read_to_string(format!("/proc/{process}/maps")).unwrap_or_default();
    let files: Vec<&str> = maps.lines().filter_map(|line| line.find('/').map(|at| &line[at..])).collect();
    let statements = [
        ("vramscope", Some(env!("CARGO_PKG_VERSION").to_owned())),
        ("started_us", Some(now.as_micros().to_string())),
        ("process", Some(process.to_string())),
        ("command", command(process)),
        ("host", read("/proc/sys/kernel/hostname")),
        ("kernel", read("/proc/sys/kernel/osrelease")),
        ("user", user(process)),
        ("python", python(&files)),
        ("torch", torch(process, &files)),
        ("runtime", version_of(&files, "libcudart.so.")),
        ("driver", version_of(&files, "libcuda.so.")),
    ];
    let known = |(name, text): (&'static str, Option<String>)| Some((name, text.filter(|t| !t.is_empty())?));
    statements.into_iter().filter_map(known).collect()
}

/// The command line, with spaces between its words and without secrets.
fn command(process: u32) -> Option<String> {
    let bytes = fs::read(format!("/proc/{process}/cmdline")).ok()?;
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(MOST_TEXT)]).into_owned();
    Some(masked(text.trim_end_matches('\0').split('\0')))
}

/// The words of a command, in which secrets are masked.
fn masked<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let is_secret = |name: &str| {
        let name = name.to_ascii_lowercase();
        SECRETS.iter().any(|secret| name.contains(secret))
    };
    let mut out: Vec<String> = Vec::new();
    let mut hides_next = false;
    for word in words {
        let word = match word.split_once('=') {
            _ if std::mem::take(&mut hides_next) => MASK.to_owned(),
            Some((name, value)) if is_secret(name) && !value.is_empty() => format!("{name}={MASK}"),
            Some((name, value)) => format!("{name}={}", without_key(value)),
            None => {
                hides_next = word.starts_with('-') && is_secret(word);
                without_key(word)
            }
        };
        out.push(word);
    }
    out.join(" ")
}

/// A word without the key of a service, and without the password of an address.
fn without_key(word: &str) -> String {
    if KEYS.iter().any(|key| word.strip_prefix(key).is_some_and(|rest| rest.len() >= 8)) {
        return MASK.to_owned();
    }
    match word.split_once("://").map(|(scheme, rest)| (scheme, rest.split_once('@'))) {
        Some((scheme, Some((user, rest)))) if !user.contains('/') => format!("{scheme}://{MASK}@{rest}"),
        _ => word.to_owned(),
    }
}

/// The name of the process's user, or its number.
fn user(process: u32) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let id = status.lines().find_map(|line| line.strip_prefix("Uid:"))?.split_whitespace().next()?.to_owned();
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == id).then(|| name.to_owned())
    });
    Some(name.unwrap_or(id))
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// The release of Python, from the name of its library or of the program.
fn python(files: &[&str]) -> Option<String> {
    let release = |file: &&str| {
        let name = file_name(file);
        let rest = name.strip_prefix("libpython").or_else(|| name.strip_prefix("python"))?;
        let is_release = rest.starts_with("3.") && rest[2..].starts_with(|c: char| c.is_ascii_digit());
        let end =
            rest.char_indices().skip(2).find(|(_, c)| !c.is_ascii_digit()).map_or(rest.len(), |(at, _)| at);
        is_release.then(|| rest[..end].to_owned())
    };
    files.iter().find_map(release)
}

/// The release of PyTorch, from the file beside its libraries that has it.
fn torch(process: u32, files: &[&str]) -> Option<String> {
    let library = files.iter().find(|file| file.contains("/torch/lib/libc10"))?;
    let folder = Path::new(library).parent()?.parent()?;
    let text = fs::read_to_string(format!("/proc/{process}/root{}/version.py", folder.display())).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("__version__"))?;
    Some(line.trim_start_matches([' ', '=']).trim_matches(['\'', '"', ' ']).to_owned())
        .filter(|v| v.len() < 64)
}

/// The end of the file name of a library.
fn version_of(files: &[&str], start: &str) -> Option<String> {
    let version = |file: &&str| file_name(file).strip_prefix(start).map(str::to_owned);
    // The phantom's library has the number of the interface alone.
    files.iter().find_map(version).filter(|version| version != "1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_in_a_command_are_masked() {
        let masked = |text: &str| masked(text.split(' '));
        for (given, expected) in [
            ("python train.py --lr 1e-4", "python train.py --lr 1e-4"),
            ("python a.py --hf-token abc --epochs 3", "python a.py --hf-token *** --epochs 3"),
            (
                "python a.py --api_key=abc PASSWORD=x y=hf_0123456789",
                "python a.py --api_key=*** PASSWORD=*** y=***",
            ),
            ("curl https://me:word@host/path", "curl https://***@host/path"),
            ("run sk-0123456789abcdef", "run ***"),
            ("mask hf_a sk-", "mask hf_a sk-"),
        ] {
            assert_eq!(masked(given), expected);
        }
    }

    #[test]
    fn versions_are_those_of_the_mapped_files() {
        let files = ["/usr/lib/libpython3.11.so.1.0", "/a/libcuda.so.580.159.04", "/b/libcudart.so.12"];
        assert_eq!(python(&files).as_deref(), Some("3.11"));
        assert_eq!(python(&["/usr/bin/python3.14"]).as_deref(), Some("3.14"));
        assert_eq!(version_of(&files, "libcuda.so.").as_deref(), Some("580.159.04"));
        assert_eq!(version_of(&files, "libcudart.so.").as_deref(), Some("12"));
        let own = of(std::process::id());
        let text = |name: &str| own.iter().find(|(known, _)| *known == name).map(|(_, text)| text.as_str());
        assert!(text("command").is_some_and(|command| !command.is_empty()));
        assert_eq!(text("vramscope"), Some(env!("CARGO_PKG_VERSION")));
        assert_eq!(text("torch"), None);
    }
}
