import * as z from 'zod';
import type { LoopTurns } from '../../../base/async/loop-turns.ts';
import { SeineError } from '../../../base/errors/seine-error.ts';
import type { KubeHttp } from '../http-client.ts';
import { JsonCutter } from '../json/json-cutter.ts';
import { apiLimits, parseJson } from '../json/json-stream.ts';
import type { Resource } from '../resource.ts';

/** Objects of a page. */
const PAGE_SIZE = 500;
/** More than there are in any cluster: a server whose pages never end is left (500,000 objects). */
const PAGES_MAX = 1_000;

interface ObjectListOptions {
  readonly http: Pick<KubeHttp, 'stream'>;
  /** Parsing takes turns with the rest of the process. */
  readonly turns: LoopTurns;
}

interface ListedResource<T> extends Omit<Resource<T>, 'revision'> {
  /** The media type of the answer, where it is not that of whole objects. */
  readonly accept?: string;
}

/** Objects without their specification and status: of a node a sixth. Servers that do not have it send whole objects. */
export const metadataOnly = 'application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json';

const envelopeSchema = z.object({ metadata: z.object({ continue: z.string().nullish() }).nullish() });

/**
 * What the API server has now, and not what a watch has heard of it: a list read page by page, an object at a time, as fast as they are
 * taken.
 *
 * @throws SeineError as `KubeHttp`; `PROTOCOL` if an object is beyond `apiLimits`, for then it is not known what there is; `INVALID_INPUT`
 *   as `project`
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
