//! The devices that CUDA_VISIBLE_DEVICES exposes to a program. The driver and the runtime respect it; NVML does not.

use crate::identity::{mig_uuid_of, uuid_of};

/// The visible devices, by their numbers in the machine, in the order of the program's ordinals.
///
/// The list ends at the first invalid entry. An entry is a number or an unambiguous prefix of a UUID. A list with a duplicate
/// exposes no device. The UUID of the first MIG instance stands for its device.
pub(crate) fn devices(all: usize, listed: Option<&str>, is_divided: impl Fn(usize) -> bool) -> Vec<usize> {
    let Some(listed) = listed else { return (0..all).collect() };
    let found: Vec<usize> =
        listed.split(',').map_while(|entry| device(all, entry.trim(), &is_divided)).collect();
    let is_double = |(i, device)| found[..i].contains(device);
    if found.iter().enumerate().any(is_double) { Vec::new() } else { found }
}

fn device(all: usize, entry: &str, is_divided: impl Fn(usize) -> bool) -> Option<usize> {
    if let Ok(number) = entry.parse::<usize>() {
        return Some(number).filter(|&number| number < all);
    }
    let wanted = entry.to_ascii_lowercase();
    let has_name = |&device: &usize| {
        let mig = is_divided(device).then(|| mig_uuid_of(device, 0));
        let mut names = mig.into_iter().chain([uuid_of(device)]);
        names.any(|name| name.to_ascii_lowercase().starts_with(&wanted))
    };
    let mut found = (0..all).filter(has_name);
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
            assert_eq!(devices(4, Some(listed), |_| false), expected, "{listed}");
        }
        assert_eq!(devices(3, None, |_| false), [0, 1, 2]);
        let instance = mig_uuid_of(1, 0);
        assert_eq!(devices(2, Some(&instance), |device| device == 1), [1]);
        assert_eq!(devices(2, Some(&instance), |_| false), [0; 0]);
        assert_eq!(devices(1, Some(&uuid_of(0)[..10]), |_| false), [0]);
    }
}
