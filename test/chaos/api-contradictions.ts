import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Change } from './changed-view.ts';
import { linesOf } from './late-events.ts';

/** False state of the API that the tested agent sees, while a step requires it. */
export type Otherwise =
  /** Access denied. */
  | { readonly is: 'forbidden' }
  /** No objects under this path. A list that would confirm it has no answer. */
  | { readonly is: 'none'; readonly of: string }
  /** Objects under this path, modified. */
  | { readonly is: 'changed'; readonly of: string; readonly change: Change };

/** Answers in place of the API server. @returns whether it did, or no answer is to be sent */
export function answered(otherwise: Otherwise, { url = '/', method }: IncomingMessage, answer: ServerResponse): boolean {
  if (method !== 'GET') return false;
  if (otherwise.is === 'forbidden') return refuse(answer, 403, 'Forbidden');
  if (!isEmptied(otherwise, url) || beginsAgain(url)) return false;
  return isWatch(url) ? refuse(answer, 410, 'Expired') : true;
}

/** Reports whether objects of this path are hidden. */
export function isEmptied(otherwise: Otherwise, url: string): boolean {
  return otherwise.is === 'none' && pathOf(url) === otherwise.of;
}

export function changeOf(otherwise: Otherwise | undefined, url: string): Change | undefined {
  return otherwise?.is === 'changed' && pathOf(url) === otherwise.of ? otherwise.change : undefined;
}

/** Forwards a watch without its objects, so that it is empty. */
export async function passNothing(from: IncomingMessage, to: ServerResponse): Promise<void> {
  for await (const line of linesOf(from)) if (!line.startsWith('{"type":"ADDED"') && !to.destroyed) to.write(`${line}\n`);
  to.end();
}

const pathOf = (url: string): string => url.split('?', 1)[0] ?? '';
const isWatch = (url: string): boolean => /[?&]watch=(?:1|true)/.test(url);
/** A watch that first sends all objects. */
const beginsAgain = (url: string): boolean => isWatch(url) && url.includes('sendInitialEvents=true');

function refuse(answer: ServerResponse, code: number, reason: string): true {
  answer.writeHead(code, { 'Content-Type': 'application/json' });
  answer.end(JSON.stringify({ kind: 'Status', apiVersion: 'v1', status: 'Failure', reason, code, message: `the driver says: ${reason}` }));
  return true;
}
