import * as z from 'zod';
import type { LoopTurns } from '../../../base/async/loop-turns.ts';
import { SeineError } from '../../../base/errors/seine-error.ts';
import type { KubeHttp } from '../http-client.ts';
import { JsonCutter } from '../json/json-cutter.ts';
import { apiLimits, parseJson } from '../json/json-stream.ts';
import type { Resource } from '../resource.ts';

/** Objects per page. */
const PAGE_SIZE = 500;
/** Maximum number of pages (500,000 objects), more than any cluster has: stops reading from a server whose pages never end. */
const PAGES_MAX = 1_000;

interface ObjectListOptions {
  readonly http: Pick<KubeHttp, 'stream'>;
  /** Turns of the event loop, between which objects are parsed. */
  readonly turns: LoopTurns;
}

interface ListedResource<T> extends Omit<Resource<T>, 'revision'> {
  /** Media type of the answer, if it is not that of whole objects. */
  readonly accept?: string;
}

/** Media type for objects without specification and status: a sixth of a node. Servers that do not support it send whole objects. */
export const metadataOnly = 'application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json';

const envelopeSchema = z.object({ metadata: z.object({ continue: z.string().nullish() }).nullish() });

/**
 * Yields the current objects of the API server, independent of a watch: a list read page by page, an object at a time, as fast as the
 * caller consumes them.
 *
 * @throws SeineError like `KubeHttp`; `PROTOCOL` if an object is beyond `apiLimits`, for then the list is incomplete; `INVALID_INPUT` like
 * `project`
 */
export async function* listObjects<T>(
  { http, turns }: ObjectListOptions,
  { path, fieldSelector, labelSelector, accept, kind, project }: ListedResource<T>,
  signal: AbortSignal,
): AsyncGenerator<T, void> {
  const selected = { ...(fieldSelector === undefined ? {} : { fieldSelector }), ...(labelSelector === undefined ? {} : { labelSelector }) };
  const wanted = accept === undefined ? {} : { accept };
  let token: string | undefined;
  for (let page = 0; page < PAGES_MAX; page++) {
    const query = { ...selected, limit: String(PAGE_SIZE), ...(token === undefined ? {} : { continue: token }) };
    const cutter = new JsonCutter('list', apiLimits);
    for await (const chunk of http.stream({ path, query, ...wanted }, signal))
      for (const cut of cutter.push(chunk)) {
        if ('skipped' in cut) throw new SeineError('PROTOCOL', `a ${kind} of ${cut.length} bytes is ${cut.skipped}`);
        const object = project(parseJson(cut.bytes));
        if (object !== undefined) yield object;
        if (turns.due) await turns.next();
      }
    const envelope = cutter.end();
    token = (envelope && envelopeSchema.parse(parseJson(envelope)).metadata?.continue) || undefined;
    if (token === undefined) return;
  }
  throw new SeineError('PROTOCOL', `the list of ${kind} has more than ${PAGES_MAX} pages`);
}
