// The engine of the page under test: the server of `vramscope view`, or the engine embedded in a self-contained page
// (VRAMSCOPE_TRANSPORT=worker). Each test of a view runs with both.

import type { Page } from 'playwright-core';

export const TRANSPORT = process.env['VRAMSCOPE_TRANSPORT'] === 'worker' ? 'worker' : 'server';

/** Skips a test that needs a server; `what` says why. */
export const onlyServed = (skip: (condition: boolean, note: string) => void, what: string): void =>
  skip(TRANSPORT === 'worker', `only a server has ${what}`);

/** A change to all questions of one kind: a delay in milliseconds, or these bytes as the answer. */
type Meddling = { kind: string; delay: number } | { kind: string; answer: number[] };

/** The questions of a page since it was intercepted: the requested kinds, and the unanswered ones. Stored in the page. */
declare global {
  var questions: { asked: Set<string>; open: Map<object, Worker | null> } | undefined;
}

/** Runs in the page. */
function meddleInPage(meddling: Meddling): void {
  globalThis.questions ??= { asked: new Set(), open: new Map() };
  const { asked, open } = globalThis.questions;
  const isMeant = (kind: string) => kind === meddling.kind;
  const wait = () => new Promise((done) => setTimeout(done, 'delay' in meddling ? meddling.delay : 0));

  const fetched = globalThis.fetch;
  globalThis.fetch = async (path, init) => {
    if (!String(path).endsWith('/ask')) return fetched(path, init);
    const { question } = JSON.parse(String(init?.body)) as { question: string };
    const place = {};
    asked.add(question);
    open.set(place, null);
    try {
      if (isMeant(question) && 'answer' in meddling) return new Response(new Uint8Array(meddling.answer));
      if (isMeant(question)) await wait();
      return await fetched(path, init);
    } finally {
      open.delete(place);
    }
  };

  const { postMessage, terminate } = Worker.prototype;
  Worker.prototype.terminate = function () {
    for (const [place, worker] of open) if (worker === this) open.delete(place);
    terminate.call(this);
  };
  Worker.prototype.postMessage = function (request: { ask?: { question: string } }) {
    if (!request.ask) return postMessage.call(this, request);
    const { question } = request.ask;
    asked.add(question);
    const place = {};
    open.set(place, this);
    const heard = ({ data }: MessageEvent<object>) => {
      if ('read' in data) return;
      open.delete(place);
      this.removeEventListener('message', heard);
    };
    this.addEventListener('message', heard);
    if (isMeant(question) && 'answer' in meddling)
      this.dispatchEvent(new MessageEvent('message', { data: { bytes: new Uint8Array(meddling.answer).buffer } }));
    else if (isMeant(question)) void wait().then(() => postMessage.call(this, request));
    else postMessage.call(this, request);
  };
}

/** Intercepts the page's questions from now on. */
export async function meddle(page: Page, meddling: Meddling): Promise<void> {
  await page.addInitScript(meddleInPage, meddling);
  await page.evaluate(meddleInPage, meddling);
}

/** Waits until an intercepted page has asked a question of this kind, and all are answered. */
export const answered = (page: Page, kind: string): Promise<unknown> =>
  page.waitForFunction((kind) => globalThis.questions?.asked.has(kind) && globalThis.questions.open.size === 0, kind);
