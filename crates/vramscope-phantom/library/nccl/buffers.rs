//! Device memory of a communicator, by a model: NCCL's own rule for the buffers of a connection, times the number of
//! connections.
//!
//! A connection to another rank has one buffer per protocol, all held by the receiver. Between GPUs of compute capability 8.0,
//! the sender holds the buffer of the simple protocol. Every channel has its own connections: for rings to the next rank and
//! from the previous one, and for trees both ways. They are made when the first collective needs them. Connections between two
//! ranks are made when the first message passes between them. NCCL 2.28.9: src/transport/p2p.cc, src/init.cc,
//! src/transport/nvls.cc.

use std::collections::HashSet;

use crate::machine::machine;
use crate::memory::whole_pieces;
use crate::state::{Fact, Purpose};
use crate::status::{Answer, Refusal};

/// A constant that connection buffers do not explain. Communicators of 2 and 4 ranks took 544 and 688 MiB on A100 (NVIDIA/nccl,
/// issue 964); the remainder is the same in both.
const BESIDE: u64 = 256 << 20;

/// The purpose of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Use {
    Collective,
    SendTo(usize),
    ReceiveFrom(usize),
}

/// The buffers of one communicator.
pub(super) struct Buffers {
    device: usize,
    ranks: usize,
    rank: usize,
    made: HashSet<Use>,
    bytes: u64,
}

impl Buffers {
    /// Takes the initial memory of a communicator.
    pub(super) fn new(device: usize, ranks: usize, rank: usize) -> Result<Self, Refusal> {
        let mut new = Self { device, ranks, rank, made: HashSet::new(), bytes: 0 };
        if ranks > 1 {
            new.take(BESIDE)?;
        }
        Ok(new)
    }

    /// Makes the connections for a purpose, unless they exist already.
    pub(super) fn connect(&mut self, what: Use) -> Answer {
        if self.ranks > 1 && !self.made.contains(&what) {
            let model = Model::of(self.device);
            self.take(match what {
                Use::Collective => model.of_collectives(self.ranks, self.rank),
                Use::SendTo(_) => model.channels_to_a_rank * model.sender,
                Use::ReceiveFrom(_) => model.channels_to_a_rank * model.receiver,
            })?;
            self.made.insert(what);
        }
        Ok(())
    }

    fn take(&mut self, bytes: u64) -> Answer {
        machine().take(self.device, Purpose::Communication, bytes)?;
        self.bytes += bytes;
        Ok(())
    }

    /// Returns the communicator's memory.
    pub(super) fn give_back(self) {
        machine().give_back(self.device, Purpose::Communication, self.bytes);
    }
}

/// Bytes and number of connections.
#[derive(Debug, PartialEq, Eq)]
struct Model {
    /// Channels of collectives, and channels between two ranks that send to each other.
    channels: u64,
    channels_to_a_rank: u64,
    /// Bytes of a connection at the receiver, and at the sender.
    receiver: u64,
    sender: u64,
    /// Bytes per rank for reductions in the switch.
    in_switch: u64,
}

impl Model {
    fn of(device: usize) -> Self {
        let fact = |fact| machine().fact(device, fact);
        let setting = |name: &str| std::env::var(name).ok().and_then(|value| value.trim().parse().ok());
        Self::new(fact(Fact::ComputeCapability), fact(Fact::BusBits), setting)
    }

    fn new(capability: u64, bus_bits: u64, setting: impl Fn(&str) -> Option<u64>) -> Self {
        // Cards with stacked memory are assumed to use NVLink, others PCIe.
        let by_nvlink = bus_bits >= 2048;
        let (channels, channels_to_a_rank) = match capability {
            _ if !by_nvlink => (2, 2),
            ..80 => (12, 16),
            _ => (24, 32),
        };
        let most = ["NCCL_MAX_NCHANNELS", "NCCL_MAX_CTAS"].iter().filter_map(|name| setting(name)).min();
        let fewest = ["NCCL_MIN_NCHANNELS", "NCCL_MIN_CTAS"].iter().filter_map(|name| setting(name)).max();
        let limit = |channels: u64| channels.min(most.unwrap_or(32).max(1)).max(fewest.unwrap_or(0).min(32));
        let or = |name: &str, default: u64| setting(name).unwrap_or(default);
        // Eight steps each: of 512 threads with 8 lines of 16 bytes, and of 640 threads with 120 words of 8 bytes.
        let (ll, ll128) = (or("NCCL_LL_BUFFSIZE", 512 << 10), or("NCCL_LL128_BUFFSIZE", 4_915_200));
        let simple = or("NCCL_BUFFSIZE", 4 << 20);
        let at_sender = by_nvlink && capability == 80;
        let (receiver, sender) = if at_sender { (ll + ll128, simple) } else { (ll + ll128 + simple, 0) };
        // Each end also has a page or two of flags.
        let whole = |bytes: u64| whole_pieces(bytes + 4096).unwrap_or(bytes);
        let has_switch = by_nvlink && capability >= 90 && setting("NCCL_NVLS_ENABLE") != Some(0);
        let channels_of_switch = if capability >= 100 { 24 } else { 16 };
        Self {
            channels: limit(channels),
            channels_to_a_rank: limit(channels_to_a_rank),
            receiver: whole(receiver),
            sender: whole(sender),
            // To and from the switch, in eight steps.
            in_switch: if has_switch {
                limit(channels_of_switch) * 2 * 8 * or("NCCL_NVLS_CHUNKSIZE", 128 << 10)
            } else {
                0
            },
        }
    }

    /// Connections of rings and trees. In a chain, the first rank has no predecessor and the last rank no successor.
    fn of_collectives(&self, ranks: usize, rank: usize) -> u64 {
        let (received, sent) = match ranks {
            2 => (1, 1),
            _ if rank == 0 => (2, 1),
            _ if rank + 1 == ranks => (1, 2),
            _ => (2, 2),
        };
        let in_switch = if ranks > 2 { self.in_switch * ranks.min(8) as u64 } else { 0 };
        self.channels * (received * self.receiver + sent * self.sender) + in_switch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A100: (u64, u64) = (80, 5120);
    const H100: (u64, u64) = (90, 5120);

    fn model((capability, bus_bits): (u64, u64), settings: &[(&str, u64)]) -> Model {
        let find = |name: &str| settings.iter().find(|(n, _)| *n == name).map(|&(_, value)| value);
        Model::new(capability, bus_bits, find)
    }

    /// Measurements in NVIDIA/nccl's issue 964: 544 MiB for 2 ranks, and 688 MiB on the first of 4.
    #[test]
    fn measured_communicators_take_what_was_measured() {
        let model = model(A100, &[]);
        assert_eq!(BESIDE + model.of_collectives(2, 0), 544 << 20);
        assert_eq!(BESIDE + model.of_collectives(4, 0), 688 << 20);
    }

    /// Buffer sizes in NVIDIA/nccl's issue 1685: 10,485,760 and 2,097,152 bytes, on 32 channels to each rank.
    #[test]
    fn connections_of_newer_cards_are_all_the_receivers() {
        let model = model(H100, &[]);
        assert_eq!((model.receiver, model.sender, model.channels_to_a_rank), (10 << 20, 2 << 20, 32));
    }

    #[test]
    fn settings_count() {
        let smaller = model(A100, &[("NCCL_BUFFSIZE", 1 << 20), ("NCCL_MAX_NCHANNELS", 4)]);
        assert_eq!((smaller.channels, smaller.receiver, smaller.sender), (4, 6 << 20, 2 << 20));
        assert_eq!(model(A100, &[("NCCL_MAX_CTAS", 8), ("NCCL_MIN_CTAS", 10)]).channels, 10);
        assert_eq!(model(H100, &[]).in_switch, 32 << 20);
        assert_eq!(model(H100, &[("NCCL_NVLS_ENABLE", 0)]).in_switch, 0);
        assert_eq!(model((89, 384), &[]).channels, 2);
    }
}
