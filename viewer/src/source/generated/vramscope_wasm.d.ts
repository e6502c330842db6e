/* tslint:disable */
/* eslint-disable */

/**
 * The open files, by the numbers that the page gives them.
 */
export class Engine {
    free(): void;
    [Symbol.dispose](): void;
    /**
     * The answer to a question about a device, which is asked as JSON.
     *
     * # Errors
     * Where the file is not open, or the question makes no sense.
     */
    ask(file: number, device: number, question: string): Uint8Array;
    /**
     * Closes a file; its memory is free.
     */
    close(file: number): void;
    /**
     * An engine without files.
     */
    constructor();
    /**
     * Reads a file and makes it ready. `about` is what the page knows of a recording that it carries, as JSON.
     *
     * # Errors
     * Where it is no recording.
     */
    open(file: number, name: string, about: string | null | undefined, stream: any): void;
    /**
     * What the page asks for first of a file, as JSON.
     *
     * # Errors
     * Where it is not open.
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
export default function __wbg_init (module_or_path?: { module_or_path: InitInput | Promise<InitInput> } | InitInput | Promise<InitInput>): Promise<InitOutput>;
