//! Which live blocks of PyTorch's allocator were accessed, and when.

use std::collections::BTreeMap;

use vramscope_trace::AllocationAccesses;

use crate::record::access;

/// Most addresses in copied contents that are kept for a block: a copy of 64 KiB has as many words.
const MOST_POINTERS: usize = 8 << 10;

/// The accesses of one process's live blocks.
#[derive(Debug, Default)]
pub(crate) struct Accesses {
    /// By address. Blocks of several devices have different addresses.
    blocks: BTreeMap<u64, Block>,
    /// Blocks whose accesses changed since they were last written.
    changed: Vec<u64>,
    pub(crate) launches: u64,
    pub(crate) unknown_launches: u64,
    /// The copy from the host that the last launch was.
    copy: Option<(u64, u64)>,
}

#[derive(Debug)]
struct Block {
    end: u64,
    device: i64,
    /// Number of its `alloc` event.
    allocation: usize,
    accesses: Option<AllocationAccesses>,
    /// The last launch that accessed it, counted from 1.
    launch: u64,
    is_changed: bool,
    /// Addresses that the host copied into it.
    pointers: Vec<Pointers>,
}

/// Addresses in the contents of a copy from the host.
#[derive(Debug)]
struct Pointers {
    start: u64,
    end: u64,
    addresses: Vec<u64>,
}

impl Accesses {
    /// Takes note of an allocation, and of the number of its `alloc` event.
    pub(crate) fn allocated(&mut self, device: i64, address: u64, size: u64, allocation: usize) {
        let block = Block {
            end: address.saturating_add(size),
            device,
            allocation,
            accesses: None,
            launch: 0,
            is_changed: false,
            pointers: Vec::new(),
        };
        self.blocks.insert(address, block);
    }

    /// Removes a block that is freed. Returns its accesses if they changed since they were last written.
    pub(crate) fn freed(&mut self, address: u64) -> Option<AllocationAccesses> {
        self.blocks.remove(&address).filter(|block| block.is_changed)?.accesses
    }

    /// Adds the addresses of a launch. `moment` is the number of a device's events so far.
    pub(crate) fn add(&mut self, flags: u64, mut addresses: &[u64], moment: impl Fn(i64) -> usize) {
        if flags & access::CONTINUED == 0 {
            self.launches += 1;
            self.unknown_launches += u64::from(flags & access::UNKNOWN != 0);
            self.copy = None;
            if flags & access::FROM_HOST != 0 {
                let &[address, size, ref contents @ ..] = addresses else { return };
                self.access(address, &moment);
                self.forget_pointers(address, size);
                (self.copy, addresses) = (Some((address, size)), contents);
            }
        }
        match self.copy {
            Some((address, size)) => self.keep_pointers(address, size, addresses),
            None if flags & access::PLAIN != 0 => {
                addresses.iter().for_each(|&address| self.access(address, &moment));
            }
            None => addresses.iter().for_each(|&address| self.access_with_pointers(address, &moment)),
        }
    }

    /// The block that contains an address.
    fn block(&mut self, address: u64) -> Option<(u64, &mut Block)> {
        let (&start, block) = self.blocks.range_mut(..=address).next_back()?;
        (address < block.end).then_some((start, block))
    }

    fn access(&mut self, address: u64, moment: &impl Fn(i64) -> usize) {
        let launch = self.launches;
        let Some((start, block)) = self.block(address) else { return };
        if block.launch == launch {
            return;
        }
        block.launch = launch;
        let moment = moment(block.device);
        let accesses = block.accesses.get_or_insert(AllocationAccesses {
            device: block.device,
            allocation: block.allocation,
            first: moment,
            last: moment,
            count: 0,
            longest_idle: (moment, moment),
        });
        let (from, to) = accesses.longest_idle;
        if moment - accesses.last > to - from {
            accesses.longest_idle = (accesses.last, moment);
        }
        accesses.last = moment;
        accesses.count += 1;
        if !std::mem::replace(&mut block.is_changed, true) {
            self.changed.push(start);
        }
    }

    /// An access of an address, and of the addresses that the host copied there.
    fn access_with_pointers(&mut self, address: u64, moment: &impl Fn(i64) -> usize) {
        self.access(address, moment);
        let Some((start, block)) = self.block(address) else { return };
        if block.pointers.is_empty() {
            return;
        }
        let pointers = std::mem::take(&mut block.pointers);
        let of_address = pointers.iter().filter(|of| (of.start..of.end).contains(&address));
        of_address.flat_map(|of| &of.addresses).for_each(|&address| self.access(address, moment));
        if let Some(block) = self.blocks.get_mut(&start) {
            block.pointers = pointers;
        }
    }

    fn forget_pointers(&mut self, address: u64, size: u64) {
        if let Some((_, block)) = self.block(address) {
            let end = address.saturating_add(size);
            block.pointers.retain(|of| of.end <= address || end <= of.start);
        }
    }

    fn keep_pointers(&mut self, address: u64, size: u64, addresses: &[u64]) {
        let Some((_, block)) = self.block(address).filter(|_| !addresses.is_empty()) else { return };
        if block.pointers.iter().map(|of| of.addresses.len()).sum::<usize>() + addresses.len() > MOST_POINTERS
        {
            block.pointers.clear();
        }
        let end = address.saturating_add(size);
        block.pointers.push(Pointers { start: address, end, addresses: addresses.to_vec() });
    }

    /// Takes the accesses of live blocks that changed since the last call.
    pub(crate) fn changed(&mut self) -> impl Iterator<Item = AllocationAccesses> {
        let blocks = &mut self.blocks;
        std::mem::take(&mut self.changed).into_iter().filter_map(|start| {
            let block = blocks.get_mut(&start)?;
            block.accesses.filter(|_| std::mem::take(&mut block.is_changed))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accesses(
        device: i64,
        allocation: usize,
        moments: (usize, usize),
        count: u64,
        idle: (usize, usize),
    ) -> AllocationAccesses {
        AllocationAccesses {
            device,
            allocation,
            first: moments.0,
            last: moments.1,
            count,
            longest_idle: idle,
        }
    }

    fn changed(of: &mut Accesses) -> Vec<AllocationAccesses> {
        of.changed().collect()
    }

    #[test]
    fn a_block_has_its_first_and_last_access_and_its_longest_interval_without() {
        let mut of = Accesses::default();
        of.allocated(0, 1000, 100, 3);
        of.allocated(1, 5000, 100, 8);
        // Both ends of a launch's range, another block, and no block.
        for moment in [10, 12, 20, 25] {
            of.add(0, &[1000, 1099, 1100, 999], |_| moment);
        }
        of.add(access::UNKNOWN, &[5050], |device| 40 + device as usize);
        assert_eq!((of.launches, of.unknown_launches), (5, 1));
        let of_first = accesses(0, 3, (10, 25), 4, (12, 20));
        assert_eq!(changed(&mut of), [of_first, accesses(1, 8, (41, 41), 1, (41, 41))]);
        assert_eq!(changed(&mut of), []);
        // Written accesses are not written again.
        assert_eq!(of.freed(5000), None);
        of.add(0, &[1050], |_| 60);
        assert_eq!(of.freed(1000), Some(accesses(0, 3, (10, 60), 5, (25, 60))));
        assert_eq!(changed(&mut of), []);
        of.add(0, &[1050], |_| 60);
        assert_eq!(of.freed(1000), None);
    }

    /// A launch with many addresses has several records.
    #[test]
    fn the_records_of_one_launch_count_once() {
        let mut of = Accesses::default();
        of.allocated(0, 1000, 100, 0);
        of.allocated(0, 2000, 100, 1);
        of.add(0, &[1000], |_| 5);
        of.add(access::CONTINUED, &[1008, 2000], |_| 5);
        assert_eq!(of.launches, 1);
        assert_eq!(changed(&mut of).iter().map(|of| of.count).collect::<Vec<_>>(), [1, 1]);
    }

    #[test]
    fn addresses_that_were_copied_are_accessed_with_their_place() {
        let mut of = Accesses::default();
        for (i, address) in [1000, 2000, 3000, 4000].into_iter().enumerate() {
            of.allocated(0, address, 512, i);
        }
        of.add(access::FROM_HOST, &[1000, 64, 2000], |_| 4);
        of.add(access::CONTINUED, &[3000], |_| 4);
        assert_eq!(changed(&mut of).len(), 1);
        // A memset, then behind the copy, then within it.
        of.add(access::PLAIN, &[1000], |_| 5);
        assert_eq!(changed(&mut of).len(), 1);
        of.add(0, &[1064], |_| 5);
        assert_eq!(changed(&mut of).len(), 1);
        of.add(0, &[1008], |_| 6);
        assert_eq!(changed(&mut of).iter().map(|of| of.allocation).collect::<Vec<_>>(), [0, 1, 2]);
        // Another copy replaces it, and so does another block.
        of.add(access::FROM_HOST, &[1032, 64, 4000], |_| 7);
        of.add(0, &[1000, 1040], |_| 8);
        assert_eq!(changed(&mut of).iter().map(|of| of.allocation).collect::<Vec<_>>(), [0, 3]);
        of.freed(1000);
        of.allocated(0, 1000, 512, 4);
        of.add(0, &[1040], |_| 9);
        assert_eq!(changed(&mut of).iter().map(|of| of.allocation).collect::<Vec<_>>(), [4]);
    }
}
