//! [`Job`]: what is asked of the recordings of a job, in SQL, in this process or on a cluster.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};
use std::sync::Arc;

use datafusion::arrow::array::AsArray as _;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::source_as_provider;
use datafusion::error::DataFusionError;
use datafusion::execution::context::SQLOptions;
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::{DataFrame, SessionConfig, SessionContext};
use futures::StreamExt as _;
use thiserror::Error;
use tokio::runtime::Runtime;
use vramscope_fleet::{RankFile, RankRow, RankSummary};
use vramscope_report::Advice;

use crate::answers::{Answers, Format};
use crate::cluster::{self, ClusterError};
use crate::provider::{Of, Recordings, Tasks};
use crate::reading::Reading;
use crate::scan::{Here, ROWS, Said, Says};
use crate::tables::SqlTable;

/// What sorting and grouping may take of memory, in bytes; what needs more goes to the disk meanwhile.
const MEMORY: usize = 2 << 30;

/// Why a query has no answer.
#[derive(Debug, Error)]
pub enum QueryError {
    /// The query is none that can be answered, or its answer failed: why, in one line.
    #[error("{0}")]
    Sql(String),
    /// The cluster does not answer.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// No thread could be started.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl From<DataFusionError> for QueryError {
    fn from(error: DataFusionError) -> Self {
        let text = error.strip_backtrace();
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let line = lines.collect::<Vec<_>>().join(" ");
        let line = line.trim_start_matches("Error during planning: ");
        Self::Sql(match line.split_once(" not supported: ") {
            Some(("DDL" | "DML" | "Statement", what)) => {
                format!("a query reads recordings and changes nothing: {what} is not answered")
            }
            _ => line.to_owned(),
        })
    }
}

/// The recordings of a job, and who answers what is asked of them.
#[derive(Debug, Clone)]
pub struct Job {
    /// The recordings.
    pub recordings: Vec<RankFile>,
    /// How they are read.
    pub reading: Reading,
    /// How many are in work at a time; 0 is one for each core. Of a cluster, its executors decide.
    pub at_once: usize,
    /// The scheduler of a cluster that does the work, as `df://host:50050`.
    pub cluster: Option<String>,
    /// How the reader does what summaries advise.
    pub advice: Advice,
}

/// What became of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// How many rows were written.
    pub rows: u64,
    /// There are more rows than the form shows.
    pub is_cut: bool,
    /// Recordings that could not be read, each with the reason; their rows are left out.
    pub broken: BTreeMap<String, String>,
    /// What else there is to say, a line each.
    pub notes: Vec<String>,
}

impl Job {
    /// Answers a statement that reads, and writes the rows.
    ///
    /// # Errors
    /// Where it is no query that can be answered, or the answer cannot be written.
    pub fn query(
        &self,
        sql: &str,
        format: Format,
        out: &mut (dyn Write + Send),
    ) -> Result<Answered, QueryError> {
        let runtime = Runtime::new()?;
        let answered = runtime.block_on(self.answer(sql, format, out));
        // A thread may still read a recording whose rows nobody wants.
        runtime.shutdown_background();
        answered
    }

    /// The summaries of the recordings, a row each, in their order, and notes on what could not be kept.
    ///
    /// # Errors
    /// Where there is no answer.
    pub fn summaries(&self) -> Result<(Vec<RankRow>, Vec<String>), QueryError> {
        let runtime = Runtime::new()?;
        runtime.block_on(async {
            let says = Says::default();
            let frame = self.frame("SELECT file, error, summary FROM summary", &says).await?;
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
        format: Format,
        out: &mut (dyn Write + Send),
    ) -> Result<Answered, QueryError> {
        let says = Says::default();
        let frame = self.frame(sql, &says).await?;
        let read = match self.cluster {
            Some(_) => self.read_by(&frame)?,
            None => Vec::new(),
        };
        let mut answers = Answers::new(format, frame.schema().inner().clone(), out)?;
        let mut rows = frame.execute_stream().await?;
        while let Some(batch) = rows.next().await {
            if answers.write(&batch?)?.is_break() {
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

    /// The recordings that a query reads.
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

    /// Other machines keep to themselves what they could not read; their summaries say it.
    async fn ask_what_is_broken(&self, says: &Says) -> Result<(), QueryError> {
        let sql = "SELECT file, error FROM summary WHERE error IS NOT NULL";
        for batch in self.frame(sql, says).await?.collect().await? {
            let [files, errors] = [0, 1].map(|column| batch.column(column).as_string_view());
            for (file, error) in files.iter().zip(errors).filter_map(|(file, error)| file.zip(error)) {
                says.broken(file, error.to_owned());
            }
        }
        Ok(())
    }

    /// The plan of a statement.
    async fn frame(&self, sql: &str, says: &Says) -> Result<DataFrame, QueryError> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let at_once = if self.at_once == 0 { cores } else { self.at_once };
        let config = SessionConfig::new()
            .with_batch_size(ROWS)
            .with_target_partitions(at_once)
            .with_information_schema(self.cluster.is_none());
        let (context, tasks) = match &self.cluster {
            None => {
                let pool = Arc::new(FairSpillPool::new(MEMORY));
                let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool).build_arc()?;
                (SessionContext::new_with_config_rt(config, runtime), Tasks::AtOnce(at_once))
            }
            Some(scheduler) => (cluster::client(scheduler, config, self.advice).await?, Tasks::Each),
        };
        let here = Here { says: says.clone(), advice: self.advice };
        for table in SqlTable::ALL {
            let of = Of { table, recordings: self.recordings.clone(), tasks, reading: self.reading };
            context.register_table(table.name(), Arc::new(Recordings::new(of, here.clone())))?;
        }
        // A query reads recordings, and nothing else of the machine.
        let reads =
            SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
        Ok(context.sql_with_options(sql, reads).await?)
    }
}
