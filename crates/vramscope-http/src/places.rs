//! Who is connected, and who has to leave for somebody new.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::AbortHandle;

/// A bounded number of places for connections.
///
/// A new connection always has one. Where all are taken, the place of another is given to it: of those whose question
/// has not come or was not trusted, the one for which that has been so for the longest; else of those that wait for
/// their next question; else of those that are being answered.
#[derive(Debug, Clone)]
pub struct Places {
    table: Arc<Mutex<Table>>,
    most: usize,
}

#[derive(Debug, Default)]
struct Table {
    /// Counts what happens: what happened earlier has a lower number.
    clock: u64,
    taken: Vec<Taken>,
}

#[derive(Debug)]
struct Taken {
    number: u64,
    standing: Standing,
    since: u64,
    /// Ends the connection.
    end: Option<AbortHandle>,
}

/// How much a connection deserves its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    /// It has asked nothing that was worth an answer.
    Stranger,
    /// It was answered, and may ask again.
    Waiting,
    /// It is being answered.
    Asking,
}

/// A connection's place, given back when the last of its clones is dropped.
#[derive(Debug, Clone)]
pub struct Place(Arc<Held>);

#[derive(Debug)]
struct Held {
    table: Arc<Mutex<Table>>,
    number: u64,
}

impl Places {
    /// Room for `most` connections, at least one.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { table: Arc::default(), most: most.max(1) }
    }

    /// A place for a new connection. Where there is none, another connection is ended.
    #[must_use]
    pub fn take(&self) -> Place {
        let mut table = lock(&self.table);
        while table.taken.len() >= self.most {
            let places = table.taken.iter().enumerate();
            let Some((least, _)) = places.min_by_key(|(_, t)| (t.standing, t.since)) else { break };
            if let Some(end) = table.taken.swap_remove(least).end {
                end.abort();
            }
        }
        let number = table.tick();
        table.taken.push(Taken { number, standing: Standing::Stranger, since: number, end: None });
        Place(Arc::new(Held { table: Arc::clone(&self.table), number }))
    }
}

impl Place {
    /// A question that is worth an answer has come.
    pub fn asks(&self) {
        self.stands(Standing::Asking);
    }

    /// Its answer is made; another question may come.
    pub fn is_answered(&self) {
        self.stands(Standing::Waiting);
    }

    /// The task of this connection: aborted when the place is given away.
    pub(crate) fn is_ended_by(&self, task: AbortHandle) {
        let mut table = lock(&self.0.table);
        match table.taken.iter_mut().find(|t| t.number == self.0.number) {
            Some(taken) => taken.end = Some(task),
            None => task.abort(),
        }
    }

    fn stands(&self, standing: Standing) {
        let mut table = lock(&self.0.table);
        let now = table.tick();
        if let Some(taken) = table.taken.iter_mut().find(|t| t.number == self.0.number) {
            (taken.standing, taken.since) = (standing, now);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        lock(&self.table).taken.retain(|t| t.number != self.number);
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
        let mut numbers: Vec<u64> = lock(&places.table).taken.iter().map(|t| t.number).collect();
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
