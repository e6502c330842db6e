/* tslint:disable */
/* eslint-disable */

/**
 * The open files, by the page's file numbers.
 */
export class Engine {
    free(): void;
    [Symbol.dispose](): void;
    /**
     * Answers a request about a device. The request and the answer are JSON.
     *
     * # Errors
     * If the file is not open, or the request is invalid.
     */
    ask(file: number, device: number, question: string): Uint8Array;
    /**
     * Closes a file and frees its memory.
     */
    close(file: number): void;
    /**
     * Creates an engine without files.
     */
    constructor();
    /**
     * Reads and opens a file. `about` is the JSON metadata of a recording that the page embeds.
     *
     * # Errors
     * If the file is not a recording.
     */
    open(file: number, name: string, about: string | null | undefined, stream: any): void;
    /**
     * Shows the operators of a trace of `torch.profiler` beside an open file. `is_own`: the page embeds the trace.
     *
     * # Errors
     * If the file is not such a trace, or not of the recorded run.
     */
    operators(file: number, name: string, is_own: boolean, stream: any): void;
    /**
     * The data that the page requests first for a file, as JSON.
     *
     * # Errors
     * If the file is not open.
     */
    overview(file: number): Uint8Array;
}

export type InitInput = RequestInfo | URL | Response | BufferSource | WebAssembly.Module;

export interface InitOutput {
    readonly memory: WebAssembly.Memory;
    readonly __wbg_engine_free: (a: number, b: number) => void;
    readonly engine_ask: (a: number, b: number, c: number, d: number, e: number) => [number, number, number, number];
    readonly engine_close: (a: number, b: number) => void;
    readonly engine_new: () => number;
    readonly engine_open: (a: number, b: number, c: number, d: number, e: number, f: number, g: any) => [number, number];
    readonly engine_operators: (a: number, b: number, c: number, d: number, e: number, f: any) => [number, number];
    readonly engine_overview: (a: number, b: number) => [number, number, number, number];
    readonly __wbindgen_malloc: (a: number, b: number) => number;
    readonly __wbindgen_realloc: (a: number, b: number, c: number, d: number) => number;
    readonly __wbindgen_free: (a: number, b: number, c: number) => void;
    readonly __wbindgen_exn_store: (a: number) => void;
    readonly __externref_table_alloc: () => number;
    readonly __wbindgen_externrefs: WebAssembly.Table;
    readonly __externref_table_dealloc: (a: number) => void;
    readonly __wbindgen_start: () => void;
}

export type SyncInitInput = BufferSource | WebAssembly.Module;

/**
 * Instantiates the given `module`, which can either be bytes or
 * a precompiled `WebAssembly.Module`.
 *
 * @param {{ module: SyncInitInput }} module - Passing `SyncInitInput` directly is deprecated.
 *
 * @returns {InitOutput}
 */
export function initSync(module: { module: SyncInitInput } | SyncInitInput): InitOutput;

/**
 * If `module_or_path` is {RequestInfo} or {URL}, makes a request and
 * for everything else, calls `WebAssembly.instantiate` directly.
 *
 * @param {{ module_or_path: InitInput | Promise<InitInput> }} module_or_path - Passing `InitInput` directly is deprecated.
 *
 * @returns {Promise<InitOutput>}
 */
export default function __wbg_init (module_or_path: { module_or_path: InitInput | Promise<InitInput> } | InitInput | Promise<InitInput>): Promise<InitOutput>;
