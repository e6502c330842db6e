//! How much memory GPUs have.

/// A GPU by name, and the bytes that PyTorch reports as its total capacity.
///
/// The driver keeps some of the advertised size for itself, ECC takes its share, and drivers differ by a tenth
/// of a GiB. These are figures that PyTorch printed on such devices, in its messages of out of memory ("GPU 0
/// has a total capacity of 79.15 GiB"); of several, a lower one.
pub const GPUS: &[(&str, u64)] = &[
    ("a10g", hundredths_of_gib(2205)),
    ("a100-40gb", hundredths_of_gib(3950)),
    ("a100-80gb", hundredths_of_gib(7915)),
    ("a6000", hundredths_of_gib(4740)),
    ("b200", hundredths_of_gib(17835)),
    ("h100-80gb", hundredths_of_gib(7918)),
    ("h200", hundredths_of_gib(13972)),
    ("l4", hundredths_of_gib(2203)),
    ("l40", hundredths_of_gib(4440)),
    ("l40s", hundredths_of_gib(4439)),
    ("rtx2080ti", hundredths_of_gib(1073)),
    ("rtx3080", hundredths_of_gib(978)),
    ("rtx4090", hundredths_of_gib(2364)),
    ("rtx5090", hundredths_of_gib(3137)),
    ("t4", hundredths_of_gib(1475)),
    ("v100-16gb", hundredths_of_gib(1578)),
    ("v100-32gb", hundredths_of_gib(3174)),
];

const fn hundredths_of_gib(n: u64) -> u64 {
    n * (1 << 30) / 100
}

/// Bytes of a GPU by its name: of any case, with or without hyphens, spaces and the maker's name; or by the
/// beginning of its name, where there is only one.
pub fn gpu_capacity(name: &str) -> Option<u64> {
    let plain = |s: &str| {
        let s: String = s.chars().filter(char::is_ascii_alphanumeric).collect();
        let s = s.to_ascii_lowercase();
        ["nvidia", "geforce", "tesla"].iter().fold(s, |s, maker| s.replace(maker, ""))
    };
    let name = plain(name);
    let mut exact = GPUS.iter().filter(|(known, _)| plain(known) == name);
    let mut begun = GPUS.iter().filter(|(known, _)| !name.is_empty() && plain(known).starts_with(&name));
    let only = |one: Option<&(&str, u64)>, other: Option<_>| one.filter(|_| other.is_none()).map(|g| g.1);
    exact.next().map(|gpu| gpu.1).or_else(|| only(begun.next(), begun.next()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_people_write_them() {
        let known = Some(hundredths_of_gib(3950));
        for name in ["a100-40gb", "A100 40GB", "NVIDIA A100-40GB"] {
            assert_eq!(gpu_capacity(name), known, "{name}");
        }
        assert_eq!(gpu_capacity("NVIDIA GeForce RTX 4090"), Some(hundredths_of_gib(2364)));
        assert_eq!(gpu_capacity("H100"), Some(hundredths_of_gib(7918)));
        assert_eq!((gpu_capacity("a100"), gpu_capacity("")), (None, None));
    }
}
