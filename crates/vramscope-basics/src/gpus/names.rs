//! Names of GPUs as people write them.

use super::{GPUS, Gpu};

/// A GPU by its name or the driver's: of any case, with or without hyphens, spaces and the maker's names; or by its name
/// without the size of its memory, or the beginning of a name, where there is only one.
pub fn find(name: &str) -> Option<&'static Gpu> {
    let name = plain(name);
    if name.is_empty() {
        return None;
    }
    let only = |is_meant: &dyn Fn(&Gpu) -> bool| {
        let mut meant = GPUS.iter().filter(|gpu| is_meant(gpu));
        meant.next().filter(|_| meant.next().is_none())
    };
    only(&|gpu| plain(gpu.name) == name)
        .or_else(|| only(&|gpu| plain(gpu.full) == name))
        .or_else(|| only(&|gpu| without_size(gpu.name).is_some_and(|short| plain(short) == name)))
        .or_else(|| only(&|gpu| plain(gpu.name).starts_with(&name) || plain(gpu.full).starts_with(&name)))
}

/// What is left of a name when the differences that people do not care for are taken out.
fn plain(name: &str) -> String {
    let name: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    let makers = ["nvidia", "geforce", "tesla", "jetson"];
    makers.iter().fold(name.to_ascii_lowercase(), |name, maker| name.replace(maker, ""))
}

/// `h100` of `h100-80gb`.
fn without_size(name: &str) -> Option<&str> {
    let (short, size) = name.rsplit_once('-')?;
    size.strip_suffix("gb")?.parse::<u64>().ok().map(|_| short)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_people_write_them() {
        for (written, name) in [
            ("a100-40gb", "a100-40gb"),
            ("A100 40GB", "a100-40gb"),
            ("NVIDIA A100-40GB", "a100-40gb"),
            ("NVIDIA GeForce RTX 4090", "rtx4090"),
            ("NVIDIA RTX A6000", "a6000"),
            ("Tesla V100-SXM2-32GB", "v100-32gb"),
            ("RTX 6000 Ada Generation", "rtx6000-ada"),
            ("H100", "h100-80gb"),
            ("H100 PCIe", "h100-pcie"),
            ("RTX 3080", "rtx3080"),
            ("rtx3080 12gb", "rtx3080-12gb"),
            ("RTX PRO 6000 Blackwell", "rtxpro6000"),
            ("Jetson AGX Orin 64GB", "agx-orin-64gb"),
        ] {
            assert_eq!(find(written).map(|gpu| gpu.name), Some(name), "{written}");
        }
        for ambiguous_or_unknown in ["a100", "v100", "rtx4060ti", "Orin", "rtx", "", "nvidia", "h1000"] {
            assert_eq!(find(ambiguous_or_unknown), None, "{ambiguous_or_unknown}");
        }
    }

    #[test]
    fn every_gpu_is_found_by_its_name_alone() {
        for gpu in GPUS {
            assert_eq!(find(gpu.name), Some(gpu));
            assert_eq!(find(&gpu.name.to_uppercase().replace('-', " ")), Some(gpu));
            // A name of the driver never means another GPU.
            assert!(find(gpu.full).is_none_or(|found| found.full == gpu.full), "{}", gpu.full);
        }
    }
}
