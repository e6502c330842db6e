//! [`ConnectionPlaces`]: the open connections, and which one to close for a new one.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::AbortHandle;

/// A limited number of places for connections.
///
/// A new connection always gets a place. If all places are taken, another connection is closed, in this order: connections without an
/// accepted request, connections that wait for their next request, connections with a request in progress. Within each group, the
/// connection that has been in this state longest is closed.
#[derive(Debug, Clone)]
pub struct ConnectionPlaces {
    table: Arc<Mutex<Table>>,
    most: usize,
}

#[derive(Debug, Default)]
struct Table {
    /// Number of changes so far; an earlier change has a lower number.
    clock: u64,
    connections: Vec<OpenConnection>,
}

#[derive(Debug)]
struct OpenConnection {
    number: u64,
    standing: Standing,
    /// The table's clock when the connection entered this state.
    since: u64,
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
    table: Arc<Mutex<Table>>,
    number: u64,
}

impl ConnectionPlaces {
    /// Creates `most` places, at least one.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { table: Arc::default(), most: most.max(1) }
    }

    /// Takes a place for a new connection. Closes another connection if no place is free.
    #[must_use]
    pub fn take(&self) -> ConnectionPlace {
        let mut table = lock(&self.table);
        while table.connections.len() >= self.most {
            let places = table.connections.iter().enumerate();
            let Some((least, _)) = places.min_by_key(|(_, t)| (t.standing, t.since)) else { break };
            if let Some(end) = table.connections.swap_remove(least).end {
                end.abort();
            }
        }
        let number = table.tick();
        table.connections.push(OpenConnection { number, standing: Standing::New, since: number, end: None });
        ConnectionPlace(Arc::new(PlaceGuard { table: Arc::clone(&self.table), number }))
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
        let mut table = lock(&self.0.table);
        match table.connections.iter_mut().find(|t| t.number == self.0.number) {
            Some(connections) => connections.end = Some(task),
            None => task.abort(),
        }
    }

    fn stands(&self, standing: Standing) {
        let mut table = lock(&self.0.table);
        let now = table.tick();
        if let Some(connections) = table.connections.iter_mut().find(|t| t.number == self.0.number) {
            (connections.standing, connections.since) = (standing, now);
        }
    }
}

impl Drop for PlaceGuard {
    fn drop(&mut self) {
        lock(&self.table).connections.retain(|t| t.number != self.number);
    }
}

impl Table {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }
}

fn lock(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of the open connections, in order of arrival.
    fn numbers(places: &ConnectionPlaces) -> Vec<u64> {
        let mut numbers: Vec<u64> = lock(&places.table).connections.iter().map(|t| t.number).collect();
        numbers.sort_unstable();
        numbers
    }

    #[test]
    fn connections_without_requests_are_replaced_first() {
        let places = ConnectionPlaces::new(3);
        let [answered, waiting, stranger] = [places.take(), places.take(), places.take()];
        waiting.asks();
        waiting.is_answered();
        answered.asks();
        let newest = places.take();
        assert_eq!(numbers(&places), [answered.0.number, waiting.0.number, newest.0.number]);
        newest.asks();
        let last = places.take();
        assert_eq!(numbers(&places), [answered.0.number, newest.0.number, last.0.number]);
        last.asks();
        let other = places.take();
        assert_eq!(numbers(&places), [newest.0.number, last.0.number, other.0.number]);
        // A closed connection may still report its state.
        drop((stranger, waiting));
        answered.is_answered();
        assert_eq!(numbers(&places).len(), 3);
        drop((newest, last, other));
        assert!(numbers(&places).is_empty());
    }

    #[test]
    fn the_oldest_connection_without_a_request_is_replaced() {
        let places = ConnectionPlaces::new(64);
        let all: Vec<ConnectionPlace> = (0..1000).map(|_| places.take()).collect();
        let last: Vec<u64> = all[all.len() - 64..].iter().map(|p| p.0.number).collect();
        assert_eq!(numbers(&places), last);
    }
}
