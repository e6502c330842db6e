//! Runs one rank; the other ranks are simulated.

use std::ffi::OsString;

/// The environment that torchrun sets for a rank on machines with `gpus` each, and the settings of the recorder and PyTorch for simulated
/// ranks.
pub(crate) fn environment(rank: u32, world_size: u32, gpus: u32) -> Vec<(&'static str, OsString)> {
    let numbers = [
        ("RANK", rank),
        ("WORLD_SIZE", world_size),
        ("LOCAL_RANK", rank % gpus),
        ("LOCAL_WORLD_SIZE", gpus.min(world_size)),
        ("GROUP_RANK", rank / gpus),
        ("GROUP_WORLD_SIZE", world_size.div_ceil(gpus)),
        ("ROLE_RANK", rank),
        ("ROLE_WORLD_SIZE", world_size),
        ("MASTER_PORT", 29500),
        ("VRAMSCOPE_PRETEND_RANKS", 1),
        // Turns off a thread of PyTorch that polls the store for failures of other ranks.
        ("TORCH_NCCL_ENABLE_MONITORING", 0),
    ];
    let numbers = numbers.map(|(name, number)| (name, OsString::from(number.to_string())));
    numbers.into_iter().chain([("MASTER_ADDR", OsString::from("127.0.0.1"))]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pretended_rank_has_the_variables_of_torchrun() {
        let environment = environment(11, 64, 8);
        for (name, expected) in
            [("RANK", "11"), ("LOCAL_RANK", "3"), ("GROUP_RANK", "1"), ("GROUP_WORLD_SIZE", "8")]
        {
            assert!(environment.contains(&(name, expected.into())), "{name}: {environment:?}");
        }
    }
}
