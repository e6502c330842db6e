//! Exports of Nsight Systems (`nsys export --type sqlite`) of profiles with `--cuda-memory-usage=true`.
//!
//! - `sqlite`: rows of an SQLite database.
//! - `pools`: the reserved bytes of memory pools.
//!
//! The table `CUDA_GPU_MEMORY_USAGE_EVENTS` has the allocations and frees of the driver and the runtime. The stack of an allocation is its
//! call in `CUPTI_ACTIVITY_KIND_RUNTIME`, below the frames of `CUDA_CALLCHAINS` if backtraces were collected. Rows of memory pools have the
//! pool's size, as have the rows of `CUDA_GPU_MEMORY_POOL_EVENTS`. The reserved bytes of a device with such sizes are those of its pools and
//! of its allocations outside of pools. Kernels, copies and all other tables are not read.

mod pools;
mod sqlite;

use std::io::Read as _;

use hashbrown::{HashMap, HashSet};

use super::super::window::Window;
use super::super::{Contents, Format, FormatReader};
use super::Builder;
use crate::devices::{DeviceKind, OtherAllocator};
use crate::error::{ReadError, TableFull};
use crate::events::{Action, Event, Tags};
use crate::ids::{FrameId, StackId, StringId};
use crate::stacks::{Frame, FxNode};

use pools::{PoolName, Pools};
use sqlite::{Database, Invalid, Table, Value};

/// The reader of exports of Nsight Systems.
#[derive(Debug)]
pub(in crate::formats) struct Nsys;

const EVENTS: &str = "CUDA_GPU_MEMORY_USAGE_EVENTS";

const POOL_EVENTS: &str = "CUDA_GPU_MEMORY_POOL_EVENTS";

/// The operation `Destroyed` of `ENUM_CUDA_MEMPOOL_OPER`.
const DESTROYED: i64 = 2;

/// Maximum number of frames of a stack.
const DEEPEST: usize = 1024;

impl FormatReader for Nsys {
    fn takes(&self, start: &[u8]) -> bool {
        start.starts_with(sqlite::MAGIC)
    }

    fn read(&self, mut stream: Window<'_>) -> Result<Contents, ReadError> {
        let most = stream.most_memory();
        let mut bytes = Vec::new();
        (&mut stream).take(most.saturating_add(1)).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > most {
            return Err(ReadError::Memory { most });
        }
        let export = Export { database: Database::open(&bytes).map_err(damaged)?, read: bytes.len() as u64 };
        export.contents(Builder::new(most))
    }
}

fn damaged(Invalid { offset, what }: Invalid) -> ReadError {
    ReadError::Damaged { offset, what: what.to_owned() }
}

/// What a row of one of the tables shows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RowKind {
    Allocation,
    Free,
    /// The size of a memory pool.
    Pool,
}

/// A row of the tables of memory events and of memory pools.
struct Row {
    time_ns: i64,
    process: i64,
    device: i64,
    address: u64,
    bytes: u64,
    stream: u64,
    correlation: Option<i64>,
    /// The kind of memory.
    memory: i64,
    kind: RowKind,
    /// The address that identifies the memory pool, and the pool's size in bytes.
    pool: Option<i64>,
    pool_size: Option<u64>,
}

/// A call of the runtime or driver that made an event: its process and correlation.
type CallId = (i64, i64);

/// A call: the number of its name, and of its backtrace.
#[derive(Default, Clone, Copy, PartialEq, Eq, Hash)]
struct Call {
    name: i64,
    chain: Option<i64>,
}

struct Export<'b> {
    database: Database<'b>,
    /// Size of the file in bytes.
    read: u64,
}

impl Export<'_> {
    fn contents(&self, mut builder: Builder) -> Result<Contents, ReadError> {
        let rows = self.memory_events(&mut builder)?;
        let calls = self.calls(&rows, &builder)?;
        let stacks = self.stacks(&calls, &mut builder)?;
        let begin_ns = self.begin_ns()?;
        let processes = processes(&rows);
        let is_of_pool = |row: &&Row| row.pool_size.is_some_and(|size| size > 0) && row.pool.is_some();
        let mut pools = Pools::of(rows.iter().filter(is_of_pool).map(device_of).collect::<HashSet<_>>());
        let mut of_segments = Vec::new();
        for row in rows {
            let device = device_of(&row);
            // Two processes may use one address on one device.
            if processes.get(&device) != Some(&row.process) {
                builder.notices.unknown_action("event of another process on the same device");
                continue;
            }
            let category = Some(builder.string(kind_name(row.memory))?);
            let tags = builder.tags(Tags { stream: row.stream, category, ..Tags::default() })?;
            let call = row.correlation.map(|correlation| (process_of(row.process), correlation));
            let stack = call.and_then(|call| stacks.get(&call)).copied();
            let action = if row.kind == RowKind::Free { Action::Free } else { Action::Alloc };
            let time_us = Some(begin_ns.saturating_add(row.time_ns) / 1000);
            let event = Event { action, address_or_free: row.address, size: row.bytes, time_us, stack, tags };
            let pool: Option<PoolName> = row.pool.map(|pool| (device, pool));
            match row.kind {
                RowKind::Allocation => {
                    pools.allocate(device, event, pool, row.pool_size, &mut of_segments);
                }
                RowKind::Free => {
                    builder.push(device, event, self.read)?;
                    pools.free(device, event, row.pool_size, &mut of_segments);
                }
                RowKind::Pool => {
                    if let (Some(pool), Some(size)) = (pool, row.pool_size) {
                        pools.resize(pool, size, event, &mut of_segments);
                    }
                }
            }
            for event in of_segments.drain(..) {
                builder.push(device, event, self.read)?;
            }
            if row.kind == RowKind::Allocation {
                builder.push(device, event, self.read)?;
            }
        }
        builder.check_memory(0, self.read)?;
        Ok(builder.finish(OtherAllocator::Nsys, DeviceKind::Cuda, Format::Nsys))
    }

    fn table(&self, name: &str) -> Result<Option<Table>, ReadError> {
        self.database.table(name).map_err(damaged)
    }

    /// Calls `each` with the values of some columns of each row; a column that the table lacks is [`Value::Other`]. Does nothing if the
    /// table is missing.
    fn rows<const N: usize>(
        &self,
        table: &str,
        columns: [&str; N],
        mut each: impl FnMut([&Value<'_>; N]) -> Result<(), ReadError>,
    ) -> Result<(), ReadError> {
        let Some(table) = self.table(table)? else { return Ok(()) };
        let columns = columns.map(|name| table.column(name));
        let mut result = Ok(());
        self.database
            .rows(&table, |row| {
                let value = |at: Option<usize>| at.and_then(|at| row.get(at)).unwrap_or(&Value::Other);
                result = each(columns.map(value));
                result.is_ok()
            })
            .map_err(damaged)?;
        result
    }

    /// The rows of memory events in the order of time.
    fn memory_events(&self, builder: &mut Builder) -> Result<Vec<Row>, ReadError> {
        if self.table(EVENTS)?.is_none() {
            return Err(ReadError::OtherFile {
                what: format!("an SQLite database without the table {EVENTS}"),
                remedy: "profile with `nsys profile --cuda-memory-usage=true` and export with `nsys export --type sqlite`",
            });
        }
        let names = [
            "start",
            "globalPid",
            "deviceId",
            "address",
            "bytes",
            "memKind",
            "memoryOperationType",
            "streamId",
            "correlationId",
            "localMemoryPoolAddress",
            "localMemoryPoolSize",
        ];
        let mut rows = Vec::new();
        self.rows(EVENTS, names, |values| {
            let [
                time,
                process,
                device,
                address,
                bytes,
                memory,
                operation,
                stream,
                correlation,
                pool,
                pool_size,
            ] = values.map(Value::int);
            let wrong = || ReadError::Schema {
                path: format!("{EVENTS}, row {}", rows.len()),
                what: "has no start, device, address, bytes or operation".to_owned(),
            };
            let (Some(time_ns), Some(device), Some(address), Some(bytes), Some(operation)) =
                (time, device, address, bytes, operation)
            else {
                return Err(wrong());
            };
            if !(0..=1).contains(&operation) {
                builder.notices.unknown_action("memory operation");
                return Ok(());
            }
            rows.push(Row {
                time_ns,
                process: process.unwrap_or(0),
                device,
                address: address.cast_unsigned(),
                bytes: u64::try_from(bytes).map_err(|_| wrong())?,
                stream: stream.unwrap_or(0).cast_unsigned(),
                correlation,
                memory: memory.unwrap_or(7),
                kind: if operation == 1 { RowKind::Free } else { RowKind::Allocation },
                pool: pool.filter(|&pool| pool != 0),
                pool_size: pool_size.and_then(|size| u64::try_from(size).ok()),
            });
            if rows.len().is_multiple_of(1024) {
                builder.check_memory(rows.len() * 2 * size_of::<Row>(), self.read)?;
            }
            Ok(())
        })?;
        self.pool_events(&mut rows, builder)?;
        rows.sort_by_key(|row| row.time_ns);
        Ok(rows)
    }

    /// Adds the rows of memory pools.
    fn pool_events(&self, rows: &mut Vec<Row>, builder: &Builder) -> Result<(), ReadError> {
        let names = [
            "start",
            "globalPid",
            "deviceId",
            "address",
            "operationType",
            "correlationId",
            "localMemoryPoolSize",
        ];
        self.rows(POOL_EVENTS, names, |values| {
            let [time, process, device, pool, operation, correlation, size] = values.map(Value::int);
            if let (Some(time_ns), Some(device), Some(pool), Some(operation)) =
                (time, device, pool, operation)
            {
                let size = if operation == DESTROYED { Some(0) } else { size };
                rows.push(Row {
                    time_ns,
                    process: process.unwrap_or(0),
                    device,
                    address: pool.cast_unsigned(),
                    bytes: 0,
                    stream: 0,
                    correlation,
                    memory: 2,
                    kind: RowKind::Pool,
                    pool: Some(pool).filter(|&pool| pool != 0),
                    pool_size: size.and_then(|size| u64::try_from(size).ok()),
                });
                if rows.len().is_multiple_of(1024) {
                    builder.check_memory(rows.len() * 2 * size_of::<Row>(), self.read)?;
                }
            }
            Ok(())
        })
    }

    /// The calls that made the events.
    fn calls(&self, rows: &[Row], builder: &Builder) -> Result<HashMap<CallId, Call>, ReadError> {
        let ids = rows.iter().filter_map(|row| Some((process_of(row.process), row.correlation?)));
        let mut calls: HashMap<CallId, Call> = ids.map(|id| (id, Call::default())).collect();
        builder.check_memory(calls.len() * 2 * size_of::<(CallId, Call)>(), self.read)?;
        self.rows(
            "CUPTI_ACTIVITY_KIND_RUNTIME",
            ["globalTid", "correlationId", "nameId", "callchainId"],
            |values| {
                if let [Some(thread), Some(correlation), Some(name), chain] = values.map(Value::int)
                    && let Some(call) = calls.get_mut(&(process_of(thread), correlation))
                {
                    *call = Call { name, chain };
                }
                Ok(())
            },
        )?;
        Ok(calls)
    }

    /// The stack of each call.
    fn stacks(
        &self,
        calls: &HashMap<CallId, Call>,
        builder: &mut Builder,
    ) -> Result<HashMap<CallId, StackId>, ReadError> {
        // The frames of each backtrace, as depth, function and library.
        let mut chains: HashMap<i64, Vec<[i64; 3]>> =
            calls.values().filter_map(|call| Some((call.chain?, Vec::new()))).collect();
        let mut frames = 0usize;
        self.rows("CUDA_CALLCHAINS", ["id", "stackDepth", "symbol", "module"], |values| {
            if let [Some(id), Some(depth), Some(symbol), module] = values.map(Value::int)
                && let Some(chain) = chains.get_mut(&id)
                && chain.len() < DEEPEST
            {
                chain.push([depth, symbol, module.unwrap_or(-1)]);
                frames += 1;
                if frames.is_multiple_of(1024) {
                    builder.check_memory(frames * 2 * size_of::<[i64; 3]>(), self.read)?;
                }
            }
            Ok(())
        })?;
        let mut texts: HashMap<i64, Option<String>> = calls.values().map(|call| (call.name, None)).collect();
        texts.extend(
            chains.values().flatten().flat_map(|&[_, symbol, module]| [(symbol, None), (module, None)]),
        );
        let mut bytes = frames * 2 * size_of::<[i64; 3]>();
        self.rows("StringIds", ["id", "value"], |[id, value]| {
            if let (Some(id), Some(value)) = (id.int(), value.text())
                && let Some(text) = texts.get_mut(&id)
            {
                bytes += value.len() + size_of::<String>();
                *text = Some(value.to_owned());
                builder.check_memory(bytes, self.read)?;
            }
            Ok(())
        })?;
        // Calls of one place share their stack, and backtraces their names: each is interned once.
        let (mut stacks, mut of_places) = (HashMap::new(), HashMap::new());
        let (mut names, mut backtraces) = (HashMap::new(), HashMap::<i64, Vec<FrameId>>::new());
        let mut name = |id: i64, builder: &mut Builder| -> Result<StringId, TableFull> {
            if let Some(&name) = names.get(&id) {
                return Ok(name);
            }
            let name = builder.string(texts.get(&id).and_then(Option::as_deref).unwrap_or("??"))?;
            names.insert(id, name);
            Ok(name)
        };
        let mut ordered: Vec<_> = calls.iter().collect();
        ordered.sort_unstable_by_key(|(id, _)| **id);
        for (&id, &call) in ordered {
            if let Some(&stack) = of_places.get(&call) {
                stacks.insert(id, stack);
                continue;
            }
            let mut frames: Vec<FrameId> = Vec::new();
            if let Some(name) = texts.get(&call.name).and_then(Option::as_deref) {
                frames.push(builder.frame(without_version(name), "??", 0)?);
            }
            if let Some((of, chain)) = call.chain.and_then(|of| Some((of, chains.get_mut(&of)?))) {
                if !backtraces.contains_key(&of) {
                    chain.sort_unstable();
                    let frame = |&[_, symbol, module]: &[i64; 3]| {
                        let (name, filename) = (name(symbol, builder)?, name(module, builder)?);
                        let frame = Frame { name, filename, line: 0, fx: FxNode::default() };
                        builder.trace.frames.intern(frame)
                    };
                    backtraces.insert(of, chain.iter().map(frame).collect::<Result<_, _>>()?);
                }
                frames.extend_from_slice(&backtraces[&of]);
            }
            if !frames.is_empty() {
                let stack = builder.stack(&frames)?;
                stacks.insert(id, stack);
                of_places.insert(call, stack);
            }
            if of_places.len().is_multiple_of(1024) {
                builder.check_memory(bytes, self.read)?;
            }
        }
        Ok(stacks)
    }

    /// The time at which the session began, in nanoseconds since the Unix epoch; 0 if it is unknown.
    fn begin_ns(&self) -> Result<i64, ReadError> {
        let mut begin = 0;
        self.rows("TARGET_INFO_SESSION_START_TIME", ["utcEpochNs"], |[begin_ns]| {
            begin = begin_ns.int().unwrap_or(0);
            Ok(())
        })?;
        Ok(begin)
    }
}

/// A function of the runtime without the version at the end of its name, as in `cudaMalloc_v3020`.
fn without_version(name: &str) -> &str {
    match name.rsplit_once("_v") {
        Some((function, version)) if version.bytes().all(|b| b.is_ascii_digit()) => function,
        _ => name,
    }
}

/// The part of `globalPid` and `globalTid` that identifies a process; the low 24 bits are those of a thread.
fn process_of(global: i64) -> i64 {
    global >> 24
}

/// The number of the device of a row. Pageable and pinned memory is the host's.
fn device_of(row: &Row) -> i64 {
    if matches!(row.memory, 0 | 1) { -1 } else { row.device }
}

/// The name of a kind of memory (`ENUM_CUDA_MEM_KIND`).
fn kind_name(kind: i64) -> &'static str {
    match kind {
        0 => "Pageable",
        1 => "Pinned",
        2 => "Device",
        3 => "Array",
        4 => "Managed",
        5 => "Device Static",
        6 => "Managed Static",
        _ => "Unknown",
    }
}

/// The process with the most events on each device.
fn processes(rows: &[Row]) -> HashMap<i64, i64> {
    let mut counts: HashMap<(i64, i64), usize> = HashMap::new();
    for row in rows.iter().filter(|row| row.kind != RowKind::Pool) {
        *counts.entry((device_of(row), row.process)).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_unstable_by_key(|&((device, process), count)| (device, count, process));
    counts.into_iter().map(|(of, _)| of).collect()
}

#[cfg(test)]
mod tests;
