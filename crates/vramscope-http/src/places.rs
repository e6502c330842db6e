//! [`Places`]: which connections are open, and which one is closed for a new one.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::AbortHandle;

/// A bounded number of places for connections.
///
/// A new connection always gets one. Where all are taken, another connection is closed for it: of those that have sent no request
/// worth an answer, the one that has been so for the longest; if there is none, of those that wait for their next request; else of
/// those that are being answered.
#[derive(Debug, Clone)]
pub struct Places {
    table: Arc<Mutex<Table>>,
    most: usize,
}

#[derive(Debug, Default)]
struct Table {
    /// Counts changes, so that an earlier one has a lower number.
    clock: u64,
    connections: Vec<OpenConnection>,
}

#[derive(Debug)]
struct OpenConnection {
    number: u64,
    standing: Standing,
    /// When it came to that standing, by the table's clock.
    since: u64,
    /// Closes the connection.
    end: Option<AbortHandle>,
}

/// What a connection is doing: the lowest one loses its place first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    /// It has sent no request that was worth an answer.
    New,
    /// It was answered, and may send another request.
    Waiting,
    /// It is being answered.
    Answering,
}

/// A connection's place, given back when the last of its clones is dropped.
#[derive(Debug, Clone)]
pub struct Place(Arc<PlaceGuard>);

#[derive(Debug)]
struct PlaceGuard {
    table: Arc<Mutex<Table>>,
    number: u64,
}

impl Places {
    /// Room for `most` connections, at least one.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { table: Arc::default(), most: most.max(1) }
    }

    /// A place for a new connection. Where none is free, another connection is closed.
    #[must_use]
    pub fn take(&self) -> Place {
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
        Place(Arc::new(PlaceGuard { table: Arc::clone(&self.table), number }))
    }
}

impl Place {
    /// Says that the connection has sent a request that is worth an answer.
    pub fn asks(&self) {
        self.stands(Standing::Answering);
    }

    /// Says that the request is answered, and that another may come.
    pub fn is_answered(&self) {
        self.stands(Standing::Waiting);
    }

    /// Sets the task of this connection, which is aborted when the place is given to another.
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

    /// The numbers of those that have a place, as they came.
    fn numbers(places: &Places) -> Vec<u64> {
        let mut numbers: Vec<u64> = lock(&places.table).connections.iter().map(|t| t.number).collect();
        numbers.sort_unstable();
        numbers
    }

    #[test]
    fn strangers_leave_first_and_those_that_are_answered_last() {
        let places = Places::new(3);
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
        // Those that were ended may still say that they are there.
        drop((stranger, waiting));
        answered.is_answered();
        assert_eq!(numbers(&places).len(), 3);
        drop((newest, last, other));
        assert!(numbers(&places).is_empty());
    }

    #[test]
    fn of_strangers_the_first_leaves() {
        let places = Places::new(64);
        let all: Vec<Place> = (0..1000).map(|_| places.take()).collect();
        let last: Vec<u64> = all[all.len() - 64..].iter().map(|p| p.0.number).collect();
        assert_eq!(numbers(&places), last);
    }
}
