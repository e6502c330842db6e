//! The devices that CUDA_VISIBLE_DEVICES exposes to a program. The driver and the runtime respect it; NVML does not.

use crate::identity::uuid_of;

/// The visible devices, by their numbers in the machine, in the order of the program's ordinals.
///
/// The list ends at the first invalid entry. An entry is a number or an unambiguous prefix of a UUID. A list with a duplicate
/// exposes no device.
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
            // This prefix is the same for all phantom GPUs.
            (&uuid[..10], vec![]),
            ("nonsense", vec![]),
        ] {
            assert_eq!(devices(4, Some(listed)), expected, "{listed}");
        }
        assert_eq!(devices(3, None), [0, 1, 2]);
        assert_eq!(devices(1, Some(&uuid_of(0)[..10])), [0]);
    }
}
