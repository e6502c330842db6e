//! Lookup of GPUs by name.

use super::{GPUS, Gpu};

/// Finds a GPU by its name in the table or by the driver's name. Ignores case, hyphens, spaces and the names of makers and product
/// lines. Also accepts a name without the memory size, and the beginning of a name, if only one GPU matches.
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

/// Normalizes a name: lower case, alphanumeric characters only, without the names of makers and product lines.
fn plain(name: &str) -> String {
    let name: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    let makers = ["nvidia", "geforce", "tesla", "jetson"];
    makers.iter().fold(name.to_ascii_lowercase(), |name, maker| name.replace(maker, ""))
}

/// Returns the name without its memory size: `h100` for `h100-80gb`.
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
            // The driver's name of one GPU never finds a GPU with another driver name.
            assert!(find(gpu.full).is_none_or(|found| found.full == gpu.full), "{}", gpu.full);
        }
    }
}
