import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Change } from './changed-view.ts';
import { linesOf } from './late-events.ts';

/** What the tried agent is told in the place of what is so, while a step wants it. */
export type Otherwise =
  /** That it may see nothing. */
  | { readonly is: 'forbidden' }
  /** That there is none of what is under this path. A list that is to confirm it has no answer. */
  | { readonly is: 'none'; readonly of: string }
  /** Objects of what is under this path, changed. */
  | { readonly is: 'changed'; readonly of: string; readonly change: Change };

/** Answers in the place of the API server. @returns whether it did, or nobody is to */
export function answered(otherwise: Otherwise, { url = '/', method }: IncomingMessage, answer: ServerResponse): boolean {
  if (method !== 'GET') return false;
  if (otherwise.is === 'forbidden') return refuse(answer, 403, 'Forbidden');
  if (!isEmptied(otherwise, url) || beginsAnew(url)) return false;
  return isWatch(url) ? refuse(answer, 410, 'Expired') : true;
}

/** Of this path, objects are not shown. */
export function isEmptied(otherwise: Otherwise, url: string): boolean {
  return otherwise.is === 'none' && pathOf(url) === otherwise.of;
}

export function changeOf(otherwise: Otherwise | undefined, url: string): Change | undefined {
  return otherwise?.is === 'changed' && pathOf(url) === otherwise.of ? otherwise.change : undefined;
}

/** Passes a watch on without its objects, so that it says that there is none. */
export async function passNothing(from: IncomingMessage, to: ServerResponse): Promise<void> {
  for await (const line of linesOf(from)) if (!line.startsWith('{"type":"ADDED"') && !to.destroyed) to.write(`${line}\n`);
  to.end();
}

const pathOf = (url: string): string => url.split('?', 1)[0] ?? '';
const isWatch = (url: string): boolean => /[?&]watch=(?:1|true)/.test(url);
/** A watch that first sends everything there is. */
const beginsAnew = (url: string): boolean => isWatch(url) && url.includes('sendInitialEvents=true');

function refuse(answer: ServerResponse, code: number, reason: string): true {
  answer.writeHead(code, { 'Content-Type': 'application/json' });
  answer.end(JSON.stringify({ kind: 'Status', apiVersion: 'v1', status: 'Failure', reason, code, message: `the driver says: ${reason}` }));
  return true;
}
