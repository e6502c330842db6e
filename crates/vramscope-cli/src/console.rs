//! The SQL engine behind the page's console.

#[cfg(feature = "rollup")]
pub(crate) use with_rollup::console;

/// A build without SQL has no engine.
#[cfg(not(feature = "rollup"))]
pub(crate) fn console(
    _: Option<&[vramscope::fleet::RankFile]>,
    _: &crate::args::ReadArgs,
    _: bool,
) -> Result<std::sync::Arc<dyn vramscope::viewer::SqlEngine>, String> {
    Err(format!("this build of vramscope has no SQL support; {}", crate::ranks::WITH_ROLLUP))
}

#[cfg(feature = "rollup")]
mod with_rollup {
    use std::collections::HashSet;
    use std::iter;
    use std::sync::Arc;
    use std::time::Duration;

    use vramscope::analysis::Cancel;
    use vramscope::fleet::{Candidate, Rank, RankFile, RecordingPlace, ranks};
    use vramscope::viewer::{SqlAnswer, SqlColumn, SqlEngine, SqlError, SqlFile, SqlTable};
    use vramscope_rollup::{Bounds, Job, OpenSessions, QueryError, ReadingOptions, RowColumn, Rows, tables};
    use vramscope_session::Session;

    use crate::args::ReadArgs;

    /// Limits of an answer. With more rows, a page would not stay responsive.
    const BOUNDS: Bounds = Bounds { rows: 10_000, bytes: 16 << 20, time: Duration::from_secs(60) };

    /// The console over the recordings of a job, or over the open recordings.
    pub(crate) fn console(
        job: Option<&[RankFile]>,
        reading: &ReadArgs,
        no_cache: bool,
    ) -> Result<Arc<dyn SqlEngine>, String> {
        let expanded_bytes = reading.options().expanded_bytes;
        let reading = ReadingOptions { expanded_bytes, no_cache };
        Ok(Arc::new(Console { job: job.map(<[_]>::to_vec), reading }))
    }

    #[derive(Debug)]
    struct Console {
        /// The recordings of a job in the page's order; `None` for the open recordings.
        job: Option<Vec<RankFile>>,
        reading: ReadingOptions,
    }

    impl SqlEngine for Console {
        fn tables(&self) -> Vec<SqlTable> {
            let table = |(name, columns): (&str, Vec<String>)| SqlTable { name: name.to_owned(), columns };
            tables().into_iter().map(table).collect()
        }

        fn answer(&self, sql: &str, open: Vec<(usize, Arc<Session>)>, cancel: &Cancel) -> SqlAnswer {
            let files = match &self.job {
                Some(files) => files.iter().cloned().zip(0..).collect(),
                None => files_of(&open),
            };
            let name = |position| {
                files.iter().find(|(_, at)| *at == position).map(|(file, _)| file.place.to_string())
            };
            let held: OpenSessions =
                open.into_iter().filter_map(|(at, session)| Some((name(at)?, session))).collect();
            let file = |(file, position): &(RankFile, usize)| SqlFile {
                rank: file.rank.number,
                name: file.place.to_string(),
                position: *position,
            };
            let answer = SqlAnswer { files: files.iter().map(file).collect(), ..SqlAnswer::default() };
            let recordings = files.into_iter().map(|(file, _)| file).collect();
            let job = Job { recordings, reading: self.reading, at_once: 0, cluster: None };
            match job.rows(sql, held, BOUNDS, cancel) {
                Ok(Rows { columns, is_cut, notes }) => {
                    let column =
                        |RowColumn { name, is_number, values }| SqlColumn { name, is_number, values };
                    SqlAnswer { columns: columns.into_iter().map(column).collect(), is_cut, notes, ..answer }
                }
                Err(error) => {
                    let text = error.to_string();
                    let at = if let QueryError::Sql { at, .. } = error { at } else { None };
                    SqlAnswer { error: Some(SqlError { text, at }), ..answer }
                }
            }
        }
    }

    /// Names the open recordings, each once, and finds their ranks as `query` does. If the names have no ranks, a rank is the position
    /// in the page.
    fn files_of(open: &[(usize, Arc<Session>)]) -> Vec<(RankFile, usize)> {
        let mut taken = HashSet::new();
        let mut names = Vec::new();
        for (_, session) in open {
            let name = session.name();
            let mut all = iter::once(name.to_owned()).chain((2..).map(|n: u64| format!("{name} ({n})")));
            names.extend(all.find(|name| taken.insert(name.clone())));
        }
        let candidate =
            |name: &String| Candidate { name: name.clone(), told: None, length: 0, modified_ns: 0 };
        let candidates: Vec<Candidate> = names.iter().map(candidate).collect();
        let found = ranks(&candidates, None).ok().filter(|found| found.files.len() == names.len());
        let in_order = || {
            let rank = |&(position, _): &(usize, _)| Rank { number: position as u64, ..Rank::default() };
            open.iter().map(rank).zip(0..).collect()
        };
        let file = |(rank, at): (Rank, usize)| {
            let place = RecordingPlace::Here(names[at].clone().into());
            (RankFile { rank, place, length: 0 }, open[at].0)
        };
        found.map_or_else(in_order, |found| found.files).into_iter().map(file).collect()
    }
}
