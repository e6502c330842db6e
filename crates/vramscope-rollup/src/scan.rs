//! [`RecordingsSource`]: reads recordings in DataFusion's file scan.
//!
//! A file of the scan is one recording, or several for summaries. DataFusion assigns files to idle threads, and Ballista makes one task of
//! each group of files.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{
    FileGroup, FileOpenFuture, FileOpener, FileScanConfig, FileScanConfigBuilder, FileSource,
};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use datafusion::physical_plan::{DisplayFormatType, ExecutionPlan};
use futures::StreamExt as _;
use object_store::ObjectStore;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::Sender;
use vramscope_analysis::{Cancel, Frames, History};
use vramscope_export::{Table, arrow_batches, arrow_summaries};
use vramscope_fleet::{RankFile, RankRow, WorkOptions, read as read_recording, summaries, summarize};
use vramscope_report::Names;

use crate::reading::{OpenSessions, ReadingOptions};
use crate::sandbox;
use crate::store::Stores;
use crate::tables::{SqlTable, WHOSE, rows};

/// Rows per batch.
pub(crate) const ROWS: usize = 8192;

/// Limit on the batches between the producing thread and the consumer.
const WAITING: usize = 2;

/// Recordings that are read as one file of a scan.
pub(crate) type Share = Vec<RankFile>;

/// The rows and columns to read, as data that can be sent to other machines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Wanted {
    pub(crate) table: SqlTable,
    /// Column indices in the table, in the requested order.
    pub(crate) columns: Vec<usize>,
    pub(crate) reading: ReadingOptions,
    /// Number of summaries of a share made in parallel.
    pub(crate) at_once: usize,
}

/// A scan as data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ScanData {
    pub(crate) wanted: Wanted,
    /// The shares by partition of the plan.
    pub(crate) groups: Vec<Vec<Share>>,
    /// Limit on the rows of each partition.
    pub(crate) limit: Option<usize>,
}

/// Messages of a query.
#[derive(Debug, Default, Clone)]
pub(crate) struct Said {
    /// The recordings that could not be read, with the reasons.
    pub(crate) broken: BTreeMap<String, String>,
    /// Notes that belong to no recording.
    pub(crate) notes: Vec<String>,
}

/// Collects messages of all threads of a query.
#[derive(Debug, Default, Clone)]
pub(crate) struct Says(Arc<Mutex<Said>>);

impl Says {
    /// Adds a recording that could not be read.
    pub(crate) fn broken(&self, file: &str, reason: String) {
        log::warn!("{file}: {reason}");
        self.lock().broken.insert(file.to_owned(), reason);
    }

    fn note(&self, note: String) {
        log::warn!("{note}");
        self.lock().notes.push(note);
    }

    /// Returns all messages so far.
    pub(crate) fn all(&self) -> Said {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Said> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads recordings for a scan of files.
#[derive(Debug, Clone)]
pub(crate) struct RecordingsSource {
    wanted: Arc<Wanted>,
    held: Arc<OpenSessions>,
    says: Says,
    schema: TableSchema,
    most_rows: usize,
    metrics: ExecutionPlanMetricsSet,
}

impl ScanData {
    /// Returns the scan as a part of a plan.
    pub(crate) fn plan(self, held: Arc<OpenSessions>, says: Says) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = self.wanted.table.projected(&self.wanted.columns);
        let source = RecordingsSource {
            wanted: Arc::new(self.wanted),
            held,
            says,
            schema: TableSchema::from(schema),
            most_rows: ROWS,
            metrics: ExecutionPlanMetricsSet::new(),
        };
        let file = |share: Share| {
            let name = share.first().map_or(String::new(), |recording| recording.place.to_string());
            let length = share.iter().map(|recording| recording.length).sum();
            PartitionedFile::new(name, length).with_extension(share)
        };
        let groups =
            self.groups.into_iter().map(|group| FileGroup::new(group.into_iter().map(file).collect()));
        let config = FileScanConfigBuilder::new(sandbox::recordings()?, Arc::new(source))
            .with_file_groups(groups.collect())
            .with_limit(self.limit)
            .build();
        Ok(DataSourceExec::from_data_source(config))
    }

    /// Returns the scan in a part of a plan; `None` for other parts.
    pub(crate) fn of(plan: &dyn ExecutionPlan) -> Option<Self> {
        let source: &dyn std::any::Any = plan.downcast_ref::<DataSourceExec>()?.data_source().as_ref();
        let config = source.downcast_ref::<FileScanConfig>()?;
        let source: &dyn std::any::Any = config.file_source().as_ref();
        let source = source.downcast_ref::<RecordingsSource>()?;
        let share = |file: &PartitionedFile| file.extensions.get::<Share>().cloned().unwrap_or_default();
        let groups = config.file_groups.iter().map(|group| group.files().iter().map(share).collect());
        Some(Self { wanted: (*source.wanted).clone(), groups: groups.collect(), limit: config.limit })
    }
}

impl FileSource for RecordingsSource {
    fn create_file_opener(
        &self,
        _: Arc<dyn ObjectStore>,
        config: &FileScanConfig,
        _: usize,
    ) -> Result<Arc<dyn FileOpener>> {
        Ok(Arc::new(Opener { source: self.clone(), limit: config.limit }))
    }

    fn table_schema(&self) -> &TableSchema {
        &self.schema
    }

    fn with_batch_size(&self, most_rows: usize) -> Arc<dyn FileSource> {
        Arc::new(Self { most_rows, ..self.clone() })
    }

    fn metrics(&self) -> &ExecutionPlanMetricsSet {
        &self.metrics
    }

    fn file_type(&self) -> &str {
        "recording"
    }

    fn fmt_extra(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ", table={}", self.wanted.table.name())
    }

    /// Returns false: a part of a recording cannot be read alone.
    fn supports_repartitioning(&self) -> bool {
        false
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }
}

/// Opens the files of a scan.
struct Opener {
    source: RecordingsSource,
    limit: Option<usize>,
}

impl FileOpener for Opener {
    /// Reading starts when rows are requested, so that a waiting scan holds no memory.
    fn open(&self, file: PartitionedFile) -> Result<FileOpenFuture> {
        let RecordingsSource { wanted, held, says, schema, most_rows, .. } = self.source.clone();
        let (schema, limit) = (schema.table_schema().clone(), self.limit);
        Ok(Box::pin(async move {
            let started = futures::stream::once(async move {
                let mut stream = RecordBatchReceiverStream::builder(schema, WAITING);
                let out = stream.tx();
                stream.spawn_blocking(move || {
                    let share = file.extensions.get::<Share>().map_or(&[] as &[_], Vec::as_slice);
                    let left = limit.unwrap_or(usize::MAX);
                    let own = wanted.columns.iter().filter_map(|column| column.checked_sub(WHOSE)).collect();
                    let schema = wanted.table.projected(&wanted.columns);
                    let (wanted, held, says, out) = (&*wanted, &*held, &says, &out);
                    Rows { wanted, own, schema, most_rows, held, says, out, left }.read(share);
                    Ok(())
                });
                stream.build()
            });
            Ok(started.flatten().boxed())
        }))
    }
}

/// The rows of a share in progress.
struct Rows<'s> {
    wanted: &'s Wanted,
    /// The columns of the exported table, by their indices there.
    own: Vec<usize>,
    schema: SchemaRef,
    most_rows: usize,
    held: &'s OpenSessions,
    says: &'s Says,
    out: &'s Sender<Result<RecordBatch>>,
    /// The number of rows still needed.
    left: usize,
}

impl Rows<'_> {
    /// Reads the recordings of a share until no more rows are needed.
    fn read(self, share: &[RankFile]) {
        let out = self.out;
        let made = match self.wanted.table.export() {
            Some(table) => self.of_recordings(table, share),
            None => self.of_summaries(share),
        };
        if let Err(e) = made {
            out.blocking_send(Err(e)).ok();
        }
    }

    /// Emits rows of recordings, which are read one after the other, with one device in memory at a time.
    fn of_recordings(mut self, table: Table, recordings: &[RankFile]) -> Result<()> {
        for recording in recordings {
            if self.left == 0 || self.out.is_closed() {
                break;
            }
            let file = recording.place.to_string();
            if let Some(session) = self.held.get(&file) {
                let positions = 0..session.trace().devices.len();
                let histories = positions.filter_map(|at| session.history(at, &Cancel::default()).ok());
                self.of_histories(table, recording, session.names(), histories)?;
                continue;
            }
            let trace = match read_recording(&recording.place, self.wanted.reading.options(), Some(&Stores)) {
                Ok(read) => read.trace,
                Err(reason) => {
                    self.says.broken(&file, reason);
                    continue;
                }
            };
            let frames = Frames::of(&trace);
            let names = Names { trace: &trace, frames: &frames };
            let histories =
                (0..trace.devices.len()).map(|position| Arc::new(History::replayed(&trace, position)));
            self.of_histories(table, recording, names, histories)?;
        }
        Ok(())
    }

    /// Emits the rows of each device of a recording.
    fn of_histories(
        &mut self,
        table: Table,
        recording: &RankFile,
        names: Names<'_>,
        histories: impl Iterator<Item = Arc<History>>,
    ) -> Result<()> {
        for history in histories {
            let (own, most_rows) = (self.own.clone(), self.most_rows);
            let mut emit = |batch: RecordBatch| self.emit(recording, &batch);
            arrow_batches(names, [&*history], table, &own, most_rows, &mut emit)
                .map_err(|e| DataFusionError::External(e.into()))?;
            if self.left == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Emits rows of summaries, which may come from the cache.
    fn of_summaries(mut self, recordings: &[RankFile]) -> Result<()> {
        let options = WorkOptions {
            jobs: self.wanted.at_once,
            cache: !self.wanted.reading.no_cache,
            reading: self.wanted.reading.options(),
            store: Some(&Stores),
        };
        let recordings = &recordings[..recordings.len().min(self.left)];
        let held = |recording: &RankFile| {
            let file = recording.place.to_string();
            let summary = summarize(self.held.get(&file)?.recording()).map(Box::new);
            Some(RankRow { rank: recording.rank.clone(), file, summary })
        };
        let in_memory: Vec<Option<RankRow>> = recordings.iter().map(held).collect();
        let unread = recordings.iter().zip(&in_memory).filter(|(_, row)| row.is_none());
        let unread: Vec<RankFile> = unread.map(|(recording, _)| recording.clone()).collect();
        let (read, notes) = summaries(&unread, &options, &mut |_, _| {});
        notes.into_iter().for_each(|note| self.says.note(note));
        let mut read = read.into_iter();
        let rows = in_memory.into_iter().filter_map(|row| row.or_else(|| read.next()));
        for (recording, row) in recordings.iter().zip(rows) {
            if let Err(reason) = &row.summary {
                self.says.broken(&row.file, reason.clone());
            }
            let batch = arrow_summaries(std::slice::from_ref(&row), &self.own)
                .map_err(|e| DataFusionError::External(e.into()))?;
            if self.emit(recording, &batch).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Sends rows to the consumer.
    fn emit(&mut self, recording: &RankFile, batch: &RecordBatch) -> ControlFlow<()> {
        let batch = batch.slice(0, batch.num_rows().min(self.left));
        self.left -= batch.num_rows();
        let rows = rows(&self.schema, &self.wanted.columns, recording, &batch);
        let is_last = rows.is_err() || self.left == 0;
        if self.out.blocking_send(rows).is_err() || is_last {
            self.left = 0;
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }
}
