//! [`ConnectionPlaces`]: the open connections, and which one to close for a new one.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout_at};

/// The time that every connection has for its request. A program that connects and writes at once needs much less.
const GRACE: Duration = Duration::from_millis(100);

/// A limited number of places for connections.
///
/// If all places are taken, a new connection replaces one without a request in progress: first connections without an accepted request,
/// then connections that wait for their next request. Within each group, the connection that has been in this state longest is closed,
/// 100 ms after it entered the state at the earliest. A connection with a request in progress keeps its place.
#[derive(Debug, Clone)]
pub struct ConnectionPlaces {
    shared: Arc<Shared>,
    most: usize,
}

#[derive(Debug, Default)]
struct Shared {
    table: Mutex<Table>,
    /// Notified when a place becomes free, and when a connection changes its state.
    changed: Notify,
}

#[derive(Debug, Default)]
struct Table {
    /// Number of connections so far.
    count: u64,
    connections: Vec<OpenConnection>,
}

#[derive(Debug)]
struct OpenConnection {
    number: u64,
    standing: Standing,
    /// When the connection entered this state.
    since: Instant,
    /// Closes the connection.
    end: Option<AbortHandle>,
}

/// State of a connection. Connections in the lowest state are closed first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    /// No accepted request yet.
    New,
    /// The last request is answered; another one may follow.
    Waiting,
    /// A request is in progress.
    Answering,
}

/// A connection's place. It becomes free when its last clone is dropped.
#[derive(Debug, Clone)]
pub struct ConnectionPlace(Arc<PlaceGuard>);

#[derive(Debug)]
struct PlaceGuard {
    shared: Arc<Shared>,
    number: u64,
}

impl ConnectionPlaces {
    /// Creates `most` places, at least one.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { shared: Arc::default(), most: most.max(1) }
    }

    /// Takes a place for a new connection. Waits until one is free, or until the connection that it replaces has had its time.
    pub async fn take(&self) -> ConnectionPlace {
        loop {
            let retry = match self.shared.lock().free_place(self.most, Instant::now()) {
                Ok(number) => {
                    return ConnectionPlace(Arc::new(PlaceGuard {
                        shared: Arc::clone(&self.shared),
                        number,
                    }));
                }
                Err(retry) => retry,
            };
            // A change since the check above is not lost: `notify_one` keeps a permit.
            let changed = self.shared.changed.notified();
            match retry {
                Some(at) => drop(timeout_at(at, changed).await),
                None => changed.await,
            }
        }
    }
}

impl ConnectionPlace {
    /// Records that the connection has sent an accepted request.
    pub fn asks(&self) {
        self.stands(Standing::Answering);
    }

    /// Records that the request is answered and another one may follow.
    pub fn is_answered(&self) {
        self.stands(Standing::Waiting);
    }

    /// Sets the task of this connection. It is aborted when a new connection takes the place.
    pub(crate) fn is_ended_by(&self, task: AbortHandle) {
        let mut table = self.0.shared.lock();
        match table.connections.iter_mut().find(|t| t.number == self.0.number) {
            Some(connection) => connection.end = Some(task),
            None => task.abort(),
        }
    }

    fn stands(&self, standing: Standing) {
        let mut table = self.0.shared.lock();
        if let Some(connection) = table.connections.iter_mut().find(|t| t.number == self.0.number) {
            (connection.standing, connection.since) = (standing, Instant::now());
        }
        drop(table);
        self.0.shared.changed.notify_one();
    }
}

impl Drop for PlaceGuard {
    fn drop(&mut self) {
        self.shared.lock().connections.retain(|t| t.number != self.number);
        self.shared.changed.notify_one();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// Returns the number of a new connection, for which another one is closed if all places are taken. The error is when to try again;
    /// `None` is after the next change.
    fn free_place(&mut self, most: usize, now: Instant) -> Result<u64, Option<Instant>> {
        if self.connections.len() >= most {
            let places = self.connections.iter().enumerate();
            let (position, least) = places
                .filter(|(_, t)| t.standing != Standing::Answering)
                .min_by_key(|(_, t)| (t.standing, t.since, t.number))
                .ok_or(None)?;
            let end = least.since + GRACE;
            if now < end {
                return Err(Some(end));
            }
            if let Some(end) = self.connections.swap_remove(position).end {
                end.abort();
            }
        }
        self.count += 1;
        let number = self.count;
        self.connections.push(OpenConnection { number, standing: Standing::New, since: now, end: None });
        Ok(number)
    }
}

#[cfg(test)]
mod tests {
    use tokio::runtime::Builder;
    use tokio::time::timeout;

    use super::*;

    /// The numbers of the open connections, in order of arrival.
    fn numbers(places: &ConnectionPlaces) -> Vec<u64> {
        let mut numbers: Vec<u64> = places.shared.lock().connections.iter().map(|t| t.number).collect();
        numbers.sort_unstable();
        numbers
    }

    fn block_on(test: impl Future<Output = ()>) {
        Builder::new_current_thread().enable_time().build().unwrap().block_on(test);
    }

    #[test]
    fn connections_without_requests_are_replaced_first() {
        block_on(async {
            let places = ConnectionPlaces::new(3);
            let [answered, waiting, stranger] =
                [places.take().await, places.take().await, places.take().await];
            waiting.asks();
            waiting.is_answered();
            answered.asks();
            let newest = places.take().await;
            assert_eq!(numbers(&places), [answered.0.number, waiting.0.number, newest.0.number]);
            newest.asks();
            let last = places.take().await;
            assert_eq!(numbers(&places), [answered.0.number, newest.0.number, last.0.number]);
            last.asks();
            assert!(timeout(2 * GRACE, places.take()).await.is_err());
            assert_eq!(numbers(&places), [answered.0.number, newest.0.number, last.0.number]);
            // A closed connection may still report its state.
            drop((stranger, waiting));
            answered.is_answered();
            let other = places.take().await;
            assert_eq!(numbers(&places), [newest.0.number, last.0.number, other.0.number]);
            drop((newest, last, other));
            assert!(numbers(&places).is_empty());
        });
    }

    #[test]
    fn a_connection_without_a_request_is_replaced_after_a_grace_period() {
        block_on(async {
            let places = ConnectionPlaces::new(64);
            let mut all = Vec::new();
            let begun = Instant::now();
            for _ in 0..200 {
                all.push(places.take().await);
            }
            // 64 at once, and three times 64 that wait for those before them.
            assert!(begun.elapsed() >= 3 * GRACE, "{:?}", begun.elapsed());
            let last: Vec<u64> = all[all.len() - 64..].iter().map(|p| p.0.number).collect();
            assert_eq!(numbers(&places), last);
        });
    }

    #[test]
    fn a_place_that_becomes_free_is_taken_at_once() {
        block_on(async {
            let places = ConnectionPlaces::new(1);
            for _ in 0..1000 {
                let place = places.take().await;
                place.asks();
                tokio::spawn(async move { drop(place) });
            }
        });
    }
}
