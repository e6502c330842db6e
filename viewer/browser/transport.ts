// Who answers the page under test: the server of `vramscope view`, or the engine that a self-contained page carries
// (VRAMSCOPE_TRANSPORT=worker). Each test of a view runs with both.

import type { Page } from 'playwright-core';

export const TRANSPORT = process.env['VRAMSCOPE_TRANSPORT'] === 'worker' ? 'worker' : 'server';

/** Skips a test of what only a server has; `what` says what. */
export const onlyServed = (skip: (condition: boolean, note: string) => void, what: string): void =>
  skip(TRANSPORT === 'worker', `only a server has ${what}`);

/** What becomes of the questions of one kind: they take so many milliseconds longer, or are answered with these bytes. */
type Meddling = { kind: string; delay: number } | { kind: string; answer: number[] };

/** The kinds of questions that were answered. It lies in the page. */
declare global {
  var answeredKinds: Set<string> | undefined;
}

/** Runs in the page. */
function meddleInPage(meddling: Meddling): void {
  globalThis.answeredKinds ??= new Set();
  const isMeant = (kind: string | undefined) => kind === meddling.kind;
  const wait = () => new Promise((done) => setTimeout(done, 'delay' in meddling ? meddling.delay : 0));
  const told = (kind: string | undefined) => kind && globalThis.answeredKinds?.add(kind);

  const ask = globalThis.fetch;
  globalThis.fetch = async (path, init) => {
    const kind = String(path).endsWith('/ask') ? (JSON.parse(String(init?.body)) as { question: string }).question : undefined;
    if (isMeant(kind) && 'answer' in meddling) return new Response(new Uint8Array(meddling.answer));
    if (isMeant(kind)) await wait();
    const response = await ask(path, init);
    told(kind);
    return response;
  };

  const post = Worker.prototype.postMessage;
  Worker.prototype.postMessage = function (request: { ask?: { question: string } }) {
    const kind = request.ask?.question;
    const heard = ({ data }: MessageEvent<object>) => {
      if ('read' in data) return;
      told(kind);
      this.removeEventListener('message', heard);
    };
    if (kind) this.addEventListener('message', heard);
    if (isMeant(kind) && 'answer' in meddling)
      this.dispatchEvent(new MessageEvent('message', { data: { bytes: new Uint8Array(meddling.answer).buffer } }));
    else if (isMeant(kind)) void wait().then(() => post.call(this, request));
    else post.call(this, request);
  };
}

/** Meddles with questions of the page, from now on. */
export async function meddle(page: Page, meddling: Meddling): Promise<void> {
  await page.addInitScript(meddleInPage, meddling);
  await page.evaluate(meddleInPage, meddling);
}

/** Waits until a question of this kind was answered, on a page with which somebody meddles. */
export const answered = (page: Page, kind: string): Promise<unknown> =>
  page.waitForFunction((kind) => globalThis.answeredKinds?.has(kind), kind);
