import * as z from 'zod';
import { pause } from '../../base/async/pause.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { KubeHttp } from './http-client.ts';
import { parseObject } from './resource.ts';

interface OptionalApiOptions {
  readonly http: Pick<KubeHttp, 'stream' | 'json'>;
  /** API group, such as `policy.networking.k8s.io`. */
  readonly group: string;
  /** Versions that can be read, the preferred one first. Paths of requests have the first one. */
  readonly versions: readonly [string, ...string[]];
  /** Time between two discoveries of a group that is not served (ms), both ends included. Default: 60 to 120 s. */
  readonly idleMs?: { readonly min: number; readonly max: number };
  /** Returns a number from 0 to 1. Default: `Math.random`. */
  readonly chance?: () => number;
  /**
   * Time for which the resource must have been absent before a consistent list is empty (ms): 0 for a reader that knows no objects from
   * before. Default: a minute.
   */
  readonly confirmAfterMs?: number;
  /** Monotonic time (ms). Default: `performance.now`. */
  readonly nowMs?: () => number;
}

type StreamRequest = Parameters<KubeHttp['stream']>[0];

const groupSchema = z.object({ versions: z.array(z.object({ version: z.string() })) });
/** Version of the list of a resource that is not served. */
const ABSENT = '0';
const IDLE_MS = { min: 60_000, max: 120_000 } as const;
/**
 * Time for which a resource must have been absent before a list confirms it (ms). An API server that starts, or whose aggregation or CRD is
 * replaced, may not serve the resource for a while; its objects stay known meanwhile.
 */
const CONFIRMED_MS = 60_000;

/**
 * Requests to a resource that a cluster may not serve, because its CRD is not installed: it is read in the preferred version that the server
 * offers, and is an empty list while there is none. Other refusals, such as a missing permission, are errors.
 */
export class OptionalApi {
  readonly #options: OptionalApiOptions;
  /** Time since which the resource is not served; undefined if it was served last. */
  #absentSinceMs: number | undefined;

  constructor(options: OptionalApiOptions) {
    this.#options = options;
  }

  /**
   * Like `KubeHttp.stream`.
   *
   * @throws SeineError with status 410 for a watch after which the resource has to be listed again; with status 404 for a consistent list of
   * a resource that is not served, until it has not been served for a minute: a caller that knows objects confirms their removal with it
   */
  async *stream(request: StreamRequest, signal: AbortSignal, onAccepted?: () => void): AsyncGenerator<Uint8Array, void> {
    const isSnapshot = isSnapshotOf(request.query);
    const version = await this.#servedVersion(signal);
    if (version === undefined) {
      yield* this.#absent(request, signal, onAccepted);
      return;
    }
    const { group, versions, http } = this.#options;
    const path = request.path.replace(`/apis/${group}/${versions[0]}/`, `/apis/${group}/${version}/`);
    try {
      if (!isSnapshot && this.#absentSinceMs !== undefined) {
        for await (const _ of http.stream({ path, query: { limit: '1' } }, signal)) break;
        throw goneError('the resource is served now');
      }
      for await (const chunk of http.stream({ ...request, path }, signal, onAccepted)) {
        this.#absentSinceMs = undefined;
        yield chunk;
      }
    } catch (thrown) {
      if (!isNotFound(thrown)) throw thrown;
      yield* this.#absent(request, signal, onAccepted);
    }
  }

  /** Answers like a server without objects. A watch ends when it is time to look for the resource again. */
  async *#absent({ query }: StreamRequest, signal: AbortSignal, onAccepted?: () => void): AsyncGenerator<Uint8Array, void> {
    const isWatch = query?.['watch'] !== undefined;
    const isSnapshot = isSnapshotOf(query);
    if (!isSnapshot && this.#absentSinceMs === undefined) throw goneError('the resource is not served any more');
    const { nowMs: clock = () => performance.now(), confirmAfterMs = CONFIRMED_MS } = this.#options;
    const nowMs = clock();
    this.#absentSinceMs ??= nowMs;
    if (!isWatch && query?.['resourceVersion'] === undefined && nowMs - this.#absentSinceMs < confirmAfterMs) throw notServedError();
    onAccepted?.();
    if (!isWatch) {
      yield Buffer.from(JSON.stringify({ metadata: { resourceVersion: ABSENT }, items: [] }));
      return;
    }
    if (isSnapshot) {
      const metadata = { resourceVersion: ABSENT, annotations: { 'k8s.io/initial-events-end': 'true' } };
      yield Buffer.from(`${JSON.stringify({ type: 'BOOKMARK', object: { metadata } })}\n`);
    }
    const { idleMs: { min, max } = IDLE_MS, chance = Math.random } = this.#options;
    await pause(min + chance() * (max - min), signal);
    signal.throwIfAborted();
  }

  /** Returns the preferred version; undefined if the server has none of them. @throws SeineError like `KubeHttp` */
  async #servedVersion(signal: AbortSignal): Promise<string | undefined> {
    const { http, group, versions } = this.#options;
    try {
      const offered = parseObject(groupSchema, await http.json({ path: `/apis/${group}` }, signal)).versions.map(({ version }) => version);
      return versions.find((version) => offered.includes(version));
    } catch (thrown) {
      if (isNotFound(thrown)) return undefined;
      throw thrown;
    }
  }
}

function isSnapshotOf(query: StreamRequest['query']): boolean {
  return query?.['watch'] === undefined || query['sendInitialEvents'] === 'true';
}

function isNotFound(thrown: unknown): boolean {
  return thrown instanceof SeineError && thrown.context['status'] === 404;
}

function notServedError(): SeineError {
  const message = `the API server does not serve the resource; known objects stay until this has lasted for ${CONFIRMED_MS / 1_000} s`;
  return new SeineError('UNAVAILABLE', message, { context: { status: 404 } });
}

function goneError(message: string): SeineError {
  return new SeineError('UNAVAILABLE', message, { context: { status: 410, reason: 'Expired' } });
}
