//! [`Recordings`]: an SQL table whose rows come from recordings.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{Array as _, AsArray as _, RecordBatch};
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::DFSchema;
use datafusion::common::tree_node::TreeNode as _;
use datafusion::error::Result;
use datafusion::logical_expr::expr_rewriter::unnormalize_cols;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::scalar::ScalarValue;
use serde::{Deserialize, Serialize};
use vramscope_fleet::RankFile;

use crate::reading::{OpenSessions, ReadingOptions};
use crate::scan::{Says, ScanData, Wanted};
use crate::tables::{SqlTable, whose, whose_fields};

/// Limit on the tasks for summaries on a cluster. Each task looks up the cached summaries of its recordings.
const TASKS_OF_SUMMARIES: usize = 64;

/// The division of recordings into the tasks of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Tasks {
    /// One task per recording; another machine of the cluster repeats a failed task.
    Each,
    /// This number of tasks, each with a share of the recordings. For one process: it holds one recording per task in memory.
    AtOnce(usize),
}

/// The definition of a table, as data that can be sent to other machines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Of {
    pub(crate) table: SqlTable,
    pub(crate) recordings: Vec<RankFile>,
    pub(crate) tasks: Tasks,
    pub(crate) reading: ReadingOptions,
}

/// A table of the rows of many recordings.
#[derive(Debug)]
pub(crate) struct Recordings {
    pub(crate) of: Of,
    held: Arc<OpenSessions>,
    says: Says,
}

impl Recordings {
    pub(crate) fn new(of: Of, held: Arc<OpenSessions>, says: Says) -> Self {
        Self { of, held, says }
    }

    /// Returns the recordings that pass the filters.
    pub(crate) fn chosen(&self, state: &dyn Session, filters: &[Expr]) -> Result<Vec<RankFile>> {
        let Some(filter) = conjunction(unnormalize_cols(filters.iter().cloned())) else {
            return Ok(self.of.recordings.clone());
        };
        let schema = Arc::new(Schema::new(whose_fields()));
        let filter = state.create_physical_expr(filter, &DFSchema::try_from(schema.clone())?)?;
        let told: Vec<[ScalarValue; 3]> = self.of.recordings.iter().map(whose).collect();
        if told.is_empty() {
            return Ok(Vec::new());
        }
        let column = |at: usize| ScalarValue::iter_to_array(told.iter().map(|values| values[at].clone()));
        let files = RecordBatch::try_new(schema, vec![column(0)?, column(1)?, column(2)?])?;
        let is_left = filter.evaluate(&files)?.into_array(files.num_rows())?;
        let is_left = is_left.as_boolean();
        let left = |at: &usize| is_left.is_valid(*at) && is_left.value(*at);
        Ok((0..told.len()).filter(left).map(|at| self.of.recordings[at].clone()).collect())
    }
}

/// Whether a filter uses only the columns of the recording: rank, host and file.
fn is_of_files(filter: &Expr) -> Result<bool> {
    let fields = whose_fields();
    let asks_a_query = filter.exists(|part| {
        Ok(matches!(
            part,
            Expr::ScalarSubquery(_) | Expr::InSubquery(_) | Expr::Exists(_) | Expr::SetComparison(_)
        ))
    })?;
    let is_known = |name: &str| fields.iter().any(|field| field.name() == name);
    Ok(!asks_a_query && !filter.is_volatile() && filter.column_refs().iter().all(|c| is_known(&c.name)))
}

#[async_trait]
impl TableProvider for Recordings {
    fn schema(&self) -> SchemaRef {
        self.of.table.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let of = |filter: &&Expr| {
            Ok(match is_of_files(filter)? {
                true => TableProviderFilterPushDown::Exact,
                false => TableProviderFilterPushDown::Unsupported,
            })
        };
        filters.iter().map(of).collect()
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Of { table, tasks, reading, .. } = self.of;
        let chosen = self.chosen(state, filters)?;
        let columns = projection.cloned().unwrap_or_else(|| (0..self.schema().fields().len()).collect());
        let (groups, at_once) = match (tasks, table) {
            // Summaries of one share are made in parallel.
            (Tasks::AtOnce(most), SqlTable::Summary) => (vec![vec![chosen]], most),
            (Tasks::AtOnce(most), _) => {
                let each =
                    |share: Vec<RankFile>| share.into_iter().map(|recording| vec![recording]).collect();
                (shares(chosen, most).into_iter().map(each).collect(), 1)
            }
            (Tasks::Each, SqlTable::Summary) => {
                (shares(chosen, TASKS_OF_SUMMARIES).into_iter().map(|share| vec![share]).collect(), 1)
            }
            (Tasks::Each, _) => (chosen.into_iter().map(|recording| vec![vec![recording]]).collect(), 1),
        };
        let wanted = Wanted { table, columns, reading, at_once };
        ScanData { wanted, groups, limit }.plan(Arc::clone(&self.held), self.says.clone())
    }
}

/// Distributes recordings round-robin, the largest first.
fn shares(mut recordings: Vec<RankFile>, most: usize) -> Vec<Vec<RankFile>> {
    recordings.sort_by_key(|recording| std::cmp::Reverse(recording.length));
    let count = most.min(recordings.len()).max(1);
    let mut shares = vec![Vec::new(); count];
    for (number, recording) in recordings.into_iter().enumerate() {
        shares[number % count].push(recording);
    }
    shares
}

#[cfg(test)]
mod tests {
    use datafusion::logical_expr::{col, lit};
    use vramscope_fleet::{Rank, RecordingPlace};

    use super::*;

    #[test]
    fn filters_on_rank_host_and_file_are_recognized() {
        for (filter, expected) in [
            (col("rank").eq(lit(3)), true),
            (col("host").is_null().or(col("file").like(lit("%a"))), true),
            (lit(true), true),
            (col("rank").eq(lit(3)).and(col("action").eq(lit("oom"))), false),
            (col("rank").eq(col("device")), false),
        ] {
            assert_eq!(is_of_files(&filter).unwrap(), expected, "{filter}");
        }
    }

    #[test]
    fn shares_have_each_recording_once() {
        let recordings: Vec<RankFile> = (0..17)
            .map(|number| RankFile {
                rank: Rank { number, ..Rank::default() },
                place: RecordingPlace::Here(number.to_string().into()),
                length: number * 7 % 5,
            })
            .collect();
        for most in [1, 2, 16, 17, 100] {
            let shares = shares(recordings.clone(), most);
            assert_eq!(shares.len(), most.min(17));
            let sizes = shares.iter().map(Vec::len);
            assert!(sizes.clone().max().unwrap() - sizes.min().unwrap() <= 1);
            let mut ranks: Vec<u64> = shares.iter().flatten().map(|r| r.rank.number).collect();
            ranks.sort_unstable();
            assert!(ranks.into_iter().eq(0..17));
        }
        assert_eq!(shares(Vec::new(), 4), [Vec::new()]);
    }
}
