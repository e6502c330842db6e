//! The devices that CUDA_VISIBLE_DEVICES lets a program see. The driver and the runtime read it; NVML does not.

use crate::nvml::uuid_of;

/// The devices, by their numbers in the machine, in the order in which the program counts them.
///
/// What is listed counts up to the first entry that is no device: a number, or the beginning of a UUID that no other device
/// has. Who lists a device twice sees none.
pub(crate) fn devices(all: usize, listed: Option<&str>) -> Vec<usize> {
    let Some(listed) = listed else { return (0..all).collect() };
    let found: Vec<usize> = listed.split(',').map_while(|entry| device(all, entry.trim())).collect();
    let is_double = |(i, device)| found[..i].contains(device);
    if found.iter().enumerate().any(is_double) { Vec::new() } else { found }
}

fn device(all: usize, entry: &str) -> Option<usize> {
    if let Ok(number) = entry.parse::<usize>() {
        return Some(number).filter(|&number| number < all);
    }
    let wanted = entry.to_ascii_lowercase();
    let mut found = (0..all).filter(|&device| uuid_of(device).to_ascii_lowercase().starts_with(&wanted));
    found.next().filter(|_| wanted.len() > "gpu-".len() && found.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_count_up_to_the_first_that_is_no_device() {
        let uuid = uuid_of(2);
        for (listed, expected) in [
            ("", vec![]),
            ("1", vec![1]),
            ("2, 0", vec![2, 0]),
            ("1,-1,0", vec![1]),
            ("3,4,0", vec![3]),
            ("0,0", vec![]),
            (&uuid, vec![2]),
            ("GPU-", vec![]),
            // All phantom GPUs have this beginning.
            (&uuid[..10], vec![]),
            ("nonsense", vec![]),
        ] {
            assert_eq!(devices(4, Some(listed)), expected, "{listed}");
        }
        assert_eq!(devices(3, None), [0, 1, 2]);
        assert_eq!(devices(1, Some(&uuid_of(0)[..10])), [0]);
    }
}
