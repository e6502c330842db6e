use std::sync::Mutex;

use vramscope_allocator::{MemoryPool, Policy};

use super::*;
use crate::source::PoolSource;
use vramscope_basics::lock;

type Samples = Arc<Mutex<Vec<Sample>>>;

fn start(pool: &MemoryPool, interval: Duration) -> (Monitor, Samples) {
    let samples = Samples::default();
    let seen = Arc::clone(&samples);
    let source = PoolSource::new(pool, 0).unwrap();
    let monitor = Monitor::start(source, interval, move |s| lock(&seen).push(s.unwrap())).unwrap();
    (monitor, samples)
}

#[test]
fn every_interval_has_its_own_high_water_mark() {
    let pool = MemoryPool::on_host(Policy::cupy(), 1 << 30).unwrap();
    let (monitor, samples) = start(&pool, Duration::from_millis(5));
    // Each block lives much shorter than an interval.
    for mib in [7, 3] {
        drop(pool.malloc(mib << 20).unwrap());
        let seen = lock(&samples).len();
        while lock(&samples).len() < seen + 2 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    monitor.stop();
    let high: Vec<u64> = lock(&samples).iter().map(|s| s.tick.high.allocated.unwrap() >> 20).collect();
    assert_eq!(high.iter().filter(|&&h| h == 7).count(), 1, "{high:?}");
    assert_eq!(high.iter().filter(|&&h| h == 3).count(), 1, "{high:?}");
    assert!(lock(&samples).iter().all(|s| s.tick.now.allocated == Some(0) && s.tick.high_is_exact));
}

#[test]
fn two_monitors_of_one_pool_see_the_same_peak() {
    let pool = MemoryPool::on_host(Policy::cupy(), 1 << 30).unwrap();
    let (often, a) = start(&pool, Duration::from_millis(2));
    let (seldom, b) = start(&pool, Duration::from_secs(3600));
    std::thread::scope(|s| {
        for mib in [5, 9] {
            let pool = &pool;
            s.spawn(move || drop(pool.malloc(mib << 20).unwrap()));
        }
    });
    let truth = pool.statistics().allocated.peak;
    often.stop();
    seldom.stop();
    for samples in [a, b] {
        let most = lock(&samples).iter().filter_map(|s| s.tick.high.allocated).max();
        assert_eq!(most, Some(truth));
    }
}

/// If it waited for its interval, this would take an hour.
#[test]
fn a_monitor_stops_at_once_after_a_last_sample() {
    let pool = MemoryPool::on_host(Policy::cupy(), 1 << 20).unwrap();
    for _ in 0..20 {
        let (monitor, samples) = start(&pool, Duration::from_secs(3600));
        monitor.stop();
        assert_eq!(lock(&samples).len(), 2);
    }
}

/// With a simulated clock: each sample takes 2.5 intervals.
#[test]
fn missed_samples_are_counted() {
    let pool = MemoryPool::on_host(Policy::cupy(), 1 << 20).unwrap();
    let interval = Duration::from_millis(4);
    let looks = std::cell::Cell::new(0);
    let mut missed = 0;
    run(
        FirstSample::now(&(PoolSource::new(&pool, 0).unwrap() as _)),
        interval,
        |_| looks.get() < 5,
        |sample| {
            missed += sample.unwrap().missed;
            looks.set(looks.get() + 1);
            std::thread::sleep(interval * 5 / 2);
        },
    );
    assert!(missed >= 4 * 2, "{missed}");
}

#[test]
fn an_interval_of_nothing_is_refused() {
    let pool = MemoryPool::on_host(Policy::cupy(), 1 << 20).unwrap();
    let source = PoolSource::new(&pool, 0).unwrap();
    assert!(matches!(Monitor::start(source, Duration::ZERO, |_| ()), Err(MonitorError::NoInterval)));
}
