use super::*;

/// A disk with space for this many bytes.
struct Disk(Vec<u8>, usize);

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = bytes.len().min(self.1 - self.0.len());
        self.0.extend(&bytes[..n]);
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_loses_nothing_once_there_is_room() {
    let begin = LogWriter::create(Disk(Vec::new(), 1000)).unwrap().out.0.len();
    let mut log = LogWriter::create(Disk(Vec::new(), begin + 8)).unwrap();
    log.device(3);
    assert_eq!(log.flush().unwrap_err().kind(), io::ErrorKind::WriteZero);
    log.device(1);
    assert!(log.flush().is_err());
    log.out.1 = 1000;
    let disk = log.finish().unwrap();
    let recording = crate::formats::read(&disk.0[..]).unwrap();
    assert_eq!(recording.trace.devices.len(), 4);
    assert_eq!(recording.notices, crate::Notices::default());
}

fn alloc(address: u64) -> LogEvent<'static> {
    LogEvent {
        device: 1,
        action: Action::Alloc,
        unknown_action: None,
        address_or_free: address,
        size: 10,
        block_size: 512,
        time_us: 5,
        stack: None,
        stream: 0,
        pool: None,
        user_metadata: None,
        kind: SegmentKind::Unknown,
    }
}

#[test]
fn the_last_accesses_of_an_allocation_are_read() {
    let of = |allocation, first, last, count, longest_idle| AllocationAccesses {
        device: 1,
        allocation,
        first,
        last,
        count,
        longest_idle,
    };
    let mut log = LogWriter::create(Vec::new()).unwrap();
    (0..4).for_each(|i| log.event(&alloc(512 * i)));
    log.accesses(&of(2, 3, 3, 1, (3, 3)));
    log.accesses(&of(0, 1, 4, 9, (2, 3)));
    log.accesses(&of(2, 3, 4, 2, (3, 4)));
    log.launches(7, 2);
    log.flush().unwrap();
    let accesses = |bytes: &[u8]| crate::formats::read(bytes).map(|read| read.trace.accesses.clone());
    let whole = accesses(&log.out).unwrap().unwrap();
    assert_eq!((whole.launches, whole.unknown_launches), (7, 2));
    assert_eq!(whole.allocations, [of(0, 1, 4, 9, (2, 3)), of(2, 3, 4, 2, (3, 4))]);
    // The accesses after the next event are not known yet.
    log.event(&alloc(9999));
    log.flush().unwrap();
    assert_eq!(accesses(&log.out).unwrap(), None);
    log.launches(8, 2);
    log.flush().unwrap();
    assert_eq!(accesses(&log.out).unwrap().unwrap().launches, 8);
    // Numbers that contradict each other.
    for wrong in
        [of(5, 5, 5, 1, (5, 5)), of(0, 1, 6, 1, (1, 1)), of(0, 1, 2, 0, (1, 1)), of(0, 1, 2, 2, (1, 3))]
    {
        let mut other = log.continued_in(log.out.clone());
        other.accesses(&wrong);
        other.launches(9, 0);
        let read = accesses(&other.finish().unwrap());
        assert!(matches!(read, Err(crate::ReadError::DamagedLog { .. })), "{wrong:?}: {read:?}");
    }
}

#[test]
fn a_flush_writes_once_and_nothing_where_nothing_waits() {
    let mut log = LogWriter::create(Vec::new()).unwrap();
    let header = log.out.len();
    log.flush().unwrap();
    assert_eq!((log.out.len(), log.pending()), (header, 0));
    // Two bytes each: five chunks.
    for i in 0..600_000 {
        log.device(i % 2);
    }
    assert_eq!(log.out.len(), header);
    log.flush().unwrap();
    // The numbers of the first string, site and stack of each chunk take four bytes.
    assert_eq!(log.out.len(), header + 5 * (CHUNK_HEADER + 4) + 1_200_000);
}
