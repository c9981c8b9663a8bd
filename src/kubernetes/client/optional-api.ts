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
}

type StreamRequest = Parameters<KubeHttp['stream']>[0];

const groupSchema = z.object({ versions: z.array(z.object({ version: z.string() })) });
/** Version of the list of a resource that is not served. */
const ABSENT = '0';
const IDLE_MS = { min: 60_000, max: 120_000 } as const;

/**
 * Requests to a resource that a cluster may not serve, because its CRD is not installed: it is read in the preferred version that the server
 * offers, and is an empty list while there is none. Other refusals, such as a missing permission, are errors.
 */
export class OptionalApi {
  readonly #options: OptionalApiOptions;
  /** True if the last list was that of a resource that is not served. */
  #isAbsent = false;

  constructor(options: OptionalApiOptions) {
    this.#options = options;
  }

  /** Like `KubeHttp.stream`. @throws SeineError with status 410 for a watch after which the resource has to be listed again */
  async *stream(request: StreamRequest, signal: AbortSignal, onAccepted?: () => void): AsyncGenerator<Uint8Array, void> {
    const isWatch = request.query?.['watch'] !== undefined;
    const isSnapshot = !isWatch || request.query?.['sendInitialEvents'] === 'true';
    const version = await this.#servedVersion(signal);
    if (version === undefined) {
      yield* this.#absent(isWatch, isSnapshot, signal, onAccepted);
      return;
    }
    const { group, versions, http } = this.#options;
    const path = request.path.replace(`/apis/${group}/${versions[0]}/`, `/apis/${group}/${version}/`);
    try {
      if (!isSnapshot && this.#isAbsent) {
        for await (const _ of http.stream({ path, query: { limit: '1' } }, signal)) break;
        throw goneError('the resource is served now');
      }
      for await (const chunk of http.stream({ ...request, path }, signal, onAccepted)) {
        this.#isAbsent = false;
        yield chunk;
      }
    } catch (thrown) {
      if (!isNotFound(thrown)) throw thrown;
      yield* this.#absent(isWatch, isSnapshot, signal, onAccepted);
    }
  }

  /** Answers like a server without objects. A watch ends when it is time to look for the resource again. */
  async *#absent(isWatch: boolean, isSnapshot: boolean, signal: AbortSignal, onAccepted?: () => void): AsyncGenerator<Uint8Array, void> {
    if (!isSnapshot && !this.#isAbsent) throw goneError('the resource is not served any more');
    this.#isAbsent = true;
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

function isNotFound(thrown: unknown): boolean {
  return thrown instanceof SeineError && thrown.context['status'] === 404;
}

function goneError(message: string): SeineError {
  return new SeineError('UNAVAILABLE', message, { context: { status: 410, reason: 'Expired' } });
}
