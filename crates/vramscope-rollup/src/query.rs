//! [`Job`]: runs SQL queries over the recordings of a job, in this process or on a cluster.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};
use std::sync::Arc;

use datafusion::arrow::array::AsArray as _;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::source_as_provider;
use datafusion::execution::context::SQLOptions;
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::{DataFrame, SessionConfig, SessionContext};
use futures::StreamExt as _;
use vramscope_fleet::{RankFile, RankRow, RankSummary};

use crate::answers::{AnswerFormat, Answers};
use crate::cluster;
use crate::error::QueryError;
use crate::limits::{Limits, threads};
use crate::provider::{Of, Recordings, Tasks};
use crate::reading::{OpenSessions, ReadingOptions};
use crate::sandbox;
use crate::scan::{ROWS, Said, Says};
use crate::tables::SqlTable;

/// Memory limit of sorting and grouping in bytes; larger data is spilled to disk.
const MEMORY: usize = 2 << 30;

/// The recordings of a job, and the options for queries.
#[derive(Debug, Clone)]
pub struct Job {
    /// The recordings.
    pub recordings: Vec<RankFile>,
    /// Options for reading them.
    pub reading: ReadingOptions,
    /// Number of recordings processed in parallel; 0 is the number of cores. On a cluster, the executors decide.
    pub at_once: usize,
    /// The URL of a cluster's scheduler, such as `df://host:50050`; `None` uses this process.
    pub cluster: Option<String>,
}

/// The result of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// The number of written rows.
    pub rows: u64,
    /// Whether rows beyond the limit of the format were left out.
    pub is_cut: bool,
    /// Recordings that could not be read, with the reasons; their rows are missing.
    pub broken: BTreeMap<String, String>,
    /// Further notes, one line each.
    pub notes: Vec<String>,
}

impl Job {
    /// Runs a read-only statement, and writes the rows.
    ///
    /// # Errors
    /// The statement is not a valid read-only query, or the output cannot be written.
    pub fn query(
        &self,
        sql: &str,
        format: AnswerFormat,
        out: &mut (dyn Write + Send),
    ) -> Result<Answered, QueryError> {
        let runtime = threads()?;
        let answered = runtime.block_on(self.answer(sql, format, out));
        // A thread may still read a recording whose rows are not needed; it is not awaited.
        runtime.shutdown_background();
        answered
    }

    /// Returns the summaries of the recordings in their order, one row each, and notes about summaries that could not be cached.
    ///
    /// # Errors
    /// The query failed.
    pub fn summaries(&self) -> Result<(Vec<RankRow>, Vec<String>), QueryError> {
        let runtime = threads()?;
        runtime.block_on(async {
            let says = Says::default();
            let frame =
                self.frame("SELECT file, error, summary FROM summary", &Arc::default(), &says).await?;
            let mut told: HashMap<String, Result<Box<RankSummary>, String>> = HashMap::new();
            for batch in frame.collect().await? {
                let [files, errors, summaries] =
                    [0, 1, 2].map(|column| batch.column(column).as_string_view());
                for ((file, error), summary) in files.iter().zip(errors).zip(summaries) {
                    let summary = summary.map(serde_json::from_str).transpose().map_err(io::Error::from)?;
                    let unread = || error.unwrap_or("has no summary").to_owned();
                    told.insert(file.unwrap_or_default().to_owned(), summary.ok_or_else(unread));
                }
            }
            let rows = self.recordings.iter().map(|recording| {
                let file = recording.place.to_string();
                let summary = told.remove(&file).unwrap_or_else(|| Err("was not read".to_owned()));
                RankRow { rank: recording.rank.clone(), file, summary }
            });
            Ok((rows.collect(), says.all().notes))
        })
    }

    async fn answer(
        &self,
        sql: &str,
        format: AnswerFormat,
        out: &mut (dyn Write + Send),
    ) -> Result<Answered, QueryError> {
        let (says, limits) = (Says::default(), Limits::default());
        let (job, statement, told) = (self.clone(), sql.to_owned(), says.clone());
        let plan = async move {
            let frame = job.frame(&statement, &Arc::default(), &told).await?;
            let read = match job.cluster {
                Some(_) => job.read_by(&frame)?,
                None => Vec::new(),
            };
            Ok((read, frame.schema().inner().clone(), frame.execute_stream().await?))
        };
        let (read, schema, mut rows) = limits.within(plan).await?;
        let mut answers = Answers::new(format, schema, out)?;
        loop {
            let next = async move { Ok((rows.next().await.transpose()?, rows)) };
            let (batch, rest) = limits.within(next).await?;
            rows = rest;
            let Some(batch) = batch else { break };
            if answers.write(&batch)?.is_break() {
                break;
            }
        }
        drop(rows);
        let (rows, is_cut) = answers.finish()?;
        if !read.is_empty() {
            Self { recordings: read, ..self.clone() }.ask_what_is_broken(&says).await?;
        }
        let Said { broken, notes } = says.all();
        Ok(Answered { rows, is_cut, broken, notes })
    }

    /// Returns the recordings that a query reads.
    fn read_by(&self, frame: &DataFrame) -> Result<Vec<RankFile>, QueryError> {
        let (state, plan) = frame.clone().into_parts();
        let mut read: BTreeMap<String, RankFile> = BTreeMap::new();
        state.optimize(&plan)?.apply_with_subqueries(|part| {
            if let LogicalPlan::TableScan(scan) = part
                && let Some(recordings) = source_as_provider(&scan.source)?.downcast_ref::<Recordings>()
            {
                let chosen = recordings.chosen(&state, &scan.filters)?;
                read.extend(chosen.into_iter().map(|recording| (recording.place.to_string(), recording)));
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(read.into_values().collect())
    }

    /// Collects read errors of other machines from the summaries, because executors do not report them.
    async fn ask_what_is_broken(&self, says: &Says) -> Result<(), QueryError> {
        let sql = "SELECT file, error FROM summary WHERE error IS NOT NULL";
        for batch in self.frame(sql, &Arc::default(), says).await?.collect().await? {
            let [files, errors] = [0, 1].map(|column| batch.column(column).as_string_view());
            for (file, error) in files.iter().zip(errors).filter_map(|(file, error)| file.zip(error)) {
                says.broken(file, error.to_owned());
            }
        }
        Ok(())
    }

    /// Returns the plan of a statement.
    pub(crate) async fn frame(
        &self,
        sql: &str,
        held: &Arc<OpenSessions>,
        says: &Says,
    ) -> Result<DataFrame, QueryError> {
        sandbox::is_short(sql)?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let at_once = if self.at_once == 0 { cores } else { self.at_once };
        let mut config = SessionConfig::new()
            .with_batch_size(ROWS)
            .with_target_partitions(at_once)
            .with_information_schema(self.cluster.is_none());
        // Errors then have the position of the wrong word.
        config.options_mut().sql_parser.collect_spans = self.cluster.is_none();
        let (context, tasks) = match &self.cluster {
            None => {
                let pool = Arc::new(FairSpillPool::new(MEMORY));
                let runtime = sandbox::without_stores().with_memory_pool(pool).build_arc()?;
                (SessionContext::new_with_config_rt(config, runtime), Tasks::AtOnce(at_once))
            }
            Some(scheduler) => (cluster::client(scheduler, config).await?, Tasks::Each),
        };
        for table in SqlTable::ALL {
            let of = Of { table, recordings: self.recordings.clone(), tasks, reading: self.reading };
            context.register_table(
                table.name(),
                Arc::new(Recordings::new(of, Arc::clone(held), says.clone())),
            )?;
        }
        sandbox::without_large_values(&context);
        // A query may only read recordings, not other data of the machine.
        let reads =
            SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
        let frame = context.sql_with_options(sql, reads).await?;
        sandbox::has_no_large_values(frame.logical_plan())?;
        Ok(frame)
    }
}
