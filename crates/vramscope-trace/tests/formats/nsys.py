"""Writes an SQLite database with the tables of memory events of Nsight Systems, as `nsys export --type sqlite` declares them.

    nsys.py OUT PAGE_SIZE [STEPS]

A program allocates from a memory pool and frees in a loop, and trims the pool. The sample fuzz/corpus/read/nsys is `nsys.py nsys 512 6`.
"""

import os
import sqlite3
import sys

SCHEMA = """
CREATE TABLE StringIds (
    -- Consolidation of repetitive string values.
    id                          INTEGER   NOT NULL   PRIMARY KEY,           -- ID reference value.
    value                       TEXT      NOT NULL                          -- String value.
);
CREATE TABLE TARGET_INFO_SESSION_START_TIME (
    utcEpochNs                  INTEGER,                                    -- UTC epoch timestamp at start of the capture (ns).
    utcTime                     TEXT,
    localTime                   TEXT
);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (
    start                       INTEGER   NOT NULL,                         -- Event start timestamp (ns).
    end                         INTEGER   NOT NULL,
    eventClass                  INTEGER   NOT NULL,
    globalTid                   INTEGER,                                    -- Serialized GlobalId.
    correlationId               INTEGER,
    nameId                      INTEGER   NOT NULL,                         -- REFERENCES StringIds(id)
    returnValue                 INTEGER   NOT NULL,
    callchainId                 INTEGER                                     -- REFERENCES CUDA_CALLCHAINS(id)
);
CREATE TABLE CUDA_CALLCHAINS (
    id                          INTEGER   NOT NULL,
    symbol                      INTEGER   NOT NULL,                         -- REFERENCES StringIds(id)
    module                      INTEGER   NOT NULL,
    unresolved                  INTEGER,
    originalIP                  INTEGER,
    stackDepth                  INTEGER   NOT NULL,                         -- Zero-base index of the given function in call stack.
    PRIMARY KEY (id, stackDepth)
);
CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS (
    -- CUDA GPU memory usage events
    start                       INTEGER   NOT NULL,                         -- Event start timestamp (ns).
    globalPid                   INTEGER   NOT NULL,
    deviceId                    INTEGER   NOT NULL,
    contextId                   INTEGER   NOT NULL,
    address                     INTEGER   NOT NULL,
    pc                          INTEGER   NOT NULL,
    bytes                       INTEGER   NOT NULL,
    memKind                     INTEGER   NOT NULL,                         -- REFERENCES ENUM_CUDA_MEM_KIND(id)
    memoryOperationType         INTEGER   NOT NULL,                         -- REFERENCES ENUM_CUDA_DEV_MEM_EVENT_OPER(id)
    name                        TEXT,
    correlationId               INTEGER,
    streamId                    INTEGER,
    localMemoryPoolAddress      INTEGER,
    localMemoryPoolReleaseThreshold INTEGER,
    localMemoryPoolSize         INTEGER,
    localMemoryPoolUtilizedSize INTEGER,
    importedMemoryPoolAddress   INTEGER,
    importedMemoryPoolProcessId INTEGER
);
CREATE TABLE CUDA_GPU_MEMORY_POOL_EVENTS (
    start                       INTEGER   NOT NULL,                         -- Event start timestamp (ns).
    globalPid                   INTEGER   NOT NULL,
    deviceId                    INTEGER   NOT NULL,
    address                     INTEGER   NOT NULL,                         -- The base virtual address of the memory pool.
    operationType               INTEGER   NOT NULL,                         -- REFERENCES ENUM_CUDA_MEMPOOL_OPER(id)
    poolType                    INTEGER   NOT NULL,                         -- REFERENCES ENUM_CUDA_MEMPOOL_TYPE(id)
    correlationId               INTEGER,
    minBytesToKeep              INTEGER,
    localMemoryPoolReleaseThreshold INTEGER,
    localMemoryPoolSize         INTEGER,
    localMemoryPoolUtilizedSize INTEGER
);
"""

LONG = "void kernel<" + "std::tuple<int>, " * 60 + "int>()"
STRINGS = {
    1: "cudaMalloc_v3020",
    2: "cudaFree_v3020",
    3: "cudaMallocAsync_v11020",
    4: "cudaHostAlloc_v3020",
    5: "train_step()",
    6: LONG,
    7: "/opt/app/train",
    8: "cudaMemPoolTrimTo_v11020",
}
PROCESS = 0x12_0000_2A00_0000
POOL, POOL_SIZE = 0x5600_0000_0100, 32 << 20


def main(out, page_size, steps):
    if os.path.exists(out):
        os.remove(out)
    db = sqlite3.connect(out)
    db.execute(f"PRAGMA page_size = {page_size}")
    db.executescript(SCHEMA)
    db.executemany("INSERT INTO StringIds VALUES (?, ?)", STRINGS.items())
    db.execute("INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1790000000000000000, '', '')")
    db.executemany("INSERT INTO CUDA_CALLCHAINS VALUES (1, ?, 7, 0, 0, ?)", [(5, 1), (6, 0)])
    correlation, time = 0, 0

    def call(name, process):
        nonlocal correlation, time
        correlation, time = correlation + 1, time + 1500
        row = (time - 100, time + 100, 0, process + 7, correlation, name, 0, 1 if name == 1 else None)
        db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)

    def event(name, address, size, kind, is_free, process=PROCESS, device=0, pool_size=None):
        call(name, process)
        pool = (POOL, 0, pool_size, 0 if is_free else size) if pool_size else (None,) * 4
        stream = 7 if name == 3 else None
        row = (time, process, device, address, size, kind, int(is_free), correlation, stream, *pool)
        db.execute(
            "INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS VALUES (?, ?, ?, 1, ?, 0, ?, ?, ?, NULL, ?, ?, ?, ?, ?, ?, NULL, NULL)",
            row,
        )

    event(1, 0x7F00_0000_0000, 1 << 20, 2, False)
    event(4, 0x7E00_0000_0000, 4096, 1, False)
    # Another process uses the same device, and a third one another device.
    event(1, 0x7F00_0000_0000, 999, 2, False, PROCESS + (1 << 24))
    event(1, 0x7F00_0000_0000, 777, 4, False, PROCESS + (2 << 24), 1)
    for step in range(steps):
        event(3, 0x7F10_0000_0000 + step % 2 * 4096, 1000 + step, 2, False, pool_size=POOL_SIZE)
        event(2, 0x7F10_0000_0000 + step % 2 * 4096, 1000 + step, 2, True, pool_size=POOL_SIZE)
    call(8, PROCESS)
    db.execute(
        "INSERT INTO CUDA_GPU_MEMORY_POOL_EVENTS VALUES (?, ?, 0, ?, 3, 1, ?, 0, 0, 0, 0)",
        (time, PROCESS, POOL, correlation),
    )
    # The last rows are earlier: exports are not sorted.
    time = 100
    event(1, 0x7F20_0000_0000, 512, 5, False)
    db.commit()
    db.close()


main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 6)
