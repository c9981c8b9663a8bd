import type { IncomingMessage, ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import type { ApiObject } from './api.ts';
import { linesOf } from './late-events.ts';

export type Change = (object: ApiObject) => ApiObject;

interface Answer extends Partial<ApiObject> {
  readonly kind?: string;
  readonly items?: readonly ApiObject[];
}

/** Forwards a list or a single object, modified. */
export async function passChanged(from: IncomingMessage, to: ServerResponse, change: Change): Promise<void> {
  const answer = JSON.parse(await text(from)) as Answer;
  const changed = answer.items === undefined ? change(answer as ApiObject) : { ...answer, items: answer.items.map(change) };
  to.end(JSON.stringify(changed));
}

/** Forwards a watch, its objects modified. */
export async function passChangedEvents(from: IncomingMessage, to: ServerResponse, change: Change): Promise<void> {
  for await (const line of linesOf(from)) {
    const event = JSON.parse(line) as { readonly type: string; readonly object: ApiObject };
    const isObject = event.type !== 'BOOKMARK' && event.type !== 'ERROR';
    if (!to.destroyed) to.write(`${isObject ? JSON.stringify({ ...event, object: change(event.object) }) : line}\n`);
  }
  to.end();
}
