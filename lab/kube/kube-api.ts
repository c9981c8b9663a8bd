import type { IncomingMessage } from 'node:http';
import { Agent, type RequestOptions as HttpsOptions, request } from 'node:https';
import { z } from 'zod';
import { within } from '../../src/base/async/time-limit.ts';
import { SeineError } from '../../src/base/errors/seine-error.ts';
import type { ApiCredentials } from './kubeconfig.ts';

const bodyBytesMax = 64 * 1024 * 1024;
const requestTimeoutMs = 15_000;
const watchSeconds = 300;
const retryMs = { first: 100, most: 3_000 };

/** An object of Kubernetes, not validated. */
export interface UnstructuredObject {
  readonly metadata: KubeMetadata;
  readonly spec?: unknown;
  readonly status?: unknown;
}

const metadata = z.looseObject({
  name: z.string(),
  namespace: z.string().optional(),
  uid: z.string().optional(),
  resourceVersion: z.string().optional(),
  annotations: z.record(z.string(), z.string()).optional(),
});
type KubeMetadata = z.infer<typeof metadata>;
const kubeObject = z.looseObject({ metadata });
const kubeList = z.looseObject({ metadata: z.looseObject({ resourceVersion: z.string() }), items: z.array(kubeObject) });
const watchEvent = z.looseObject({ type: z.string(), object: z.looseObject({}) });

interface ApiCall {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  readonly path: string;
  readonly body?: unknown;
  /** Content type; default `application/json`. */
  readonly contentType?: string;
}

/** Client of the lab's kubelet for an API server. */
export class KubeApi {
  readonly #access: ApiCredentials;
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 32 });

  constructor(access: ApiCredentials) {
    this.#access = access;
  }

  close(): void {
    this.#agent.destroy();
  }

  /** @throws SeineError `REFUSED` with `context.status` if the server rejects the request, `UNAVAILABLE` if no answer came */
  async send(wanted: ApiCall, signal: AbortSignal): Promise<unknown> {
    const response = await this.#open(wanted, within(signal, requestTimeoutMs));
    const text = await readBody(response, `${wanted.method} ${wanted.path}`);
    const status = response.statusCode ?? 0;
    if (status >= 200 && status < 300) return text === '' ? undefined : JSON.parse(text);
    throw new SeineError('REFUSED', `${wanted.method} ${wanted.path}: ${status}: ${text.slice(0, 500)}`, { context: { status } });
  }

  /**
   * Keeps a copy of a collection, until the signal.
   *
   * @param path e.g. `/api/v1/pods`
   * @param changed called with the keys (`namespace/name`) of objects that may have changed or been deleted; the state is in `objects`
   * @param listed called after each time the copy is complete
   */
  async follow(
    path: string,
    objects: Map<string, UnstructuredObject>,
    changed: (key: string) => void,
    listed: () => void,
    signal: AbortSignal,
  ): Promise<void> {
    for (let waitMs = retryMs.first; !signal.aborted; ) {
      try {
        let version: string | undefined = await this.#relist(path, objects, changed, signal);
        waitMs = retryMs.first;
        listed();
        while (version !== undefined && !signal.aborted) version = await this.#watch(path, version, objects, changed, signal);
      } catch {
        // Any error: wait, then list again. The server may just be starting.
        if (!signal.aborted) await new Promise((resolve) => setTimeout(resolve, waitMs));
        waitMs = Math.min(waitMs * 2, retryMs.most);
      }
    }
  }

  async #relist(
    path: string,
    objects: Map<string, UnstructuredObject>,
    changed: (key: string) => void,
    signal: AbortSignal,
  ): Promise<string> {
    const list = kubeList.parse(await this.send({ method: 'GET', path }, signal));
    const listed = new Map(list.items.map((item) => [keyOf(item.metadata), item]));
    const gone = [...objects.keys()].filter((key) => !listed.has(key));
    for (const key of gone) objects.delete(key);
    for (const [key, object] of listed) objects.set(key, object);
    for (const key of [...gone, ...listed.keys()]) changed(key);
    return list.metadata.resourceVersion;
  }

  /** Watches until the server ends the stream. Returns the version to continue from; undefined requires a new list. */
  async #watch(
    path: string,
    from: string,
    objects: Map<string, UnstructuredObject>,
    changed: (key: string) => void,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    const query = `watch=true&allowWatchBookmarks=true&timeoutSeconds=${watchSeconds}&resourceVersion=${from}`;
    const response = await this.#open({ method: 'GET', path: `${path}?${query}` }, signal);
    if (response.statusCode !== 200) {
      response.destroy();
      return undefined;
    }
    let version = from;
    for await (const line of linesOf(response)) {
      const { type, object } = watchEvent.parse(JSON.parse(line));
      if (type === 'ERROR') return undefined;
      const known = type === 'BOOKMARK' ? undefined : kubeObject.parse(object);
      version = z.looseObject({ metadata: z.looseObject({ resourceVersion: z.string() }) }).parse(object).metadata.resourceVersion;
      if (known === undefined) continue;
      if (type === 'DELETED') objects.delete(keyOf(known.metadata));
      else objects.set(keyOf(known.metadata), known);
      changed(keyOf(known.metadata));
    }
    return version;
  }

  #open({ method, path, body, contentType = 'application/json' }: ApiCall, signal: AbortSignal): Promise<IncomingMessage> {
    const { server, caPem, token, certificatePem, keyPem, serverName, insecure } = this.#access;
    const payload = body === undefined ? undefined : JSON.stringify(body);
    const options: HttpsOptions = {
      method,
      agent: this.#agent,
      signal,
      headers: {
        accept: 'application/json',
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
        ...(payload !== undefined && { 'content-type': contentType, 'content-length': Buffer.byteLength(payload) }),
      },
      ...(caPem !== undefined && { ca: caPem }),
      ...(certificatePem !== undefined && { cert: certificatePem }),
      ...(keyPem !== undefined && { key: keyPem }),
      ...(serverName !== undefined && { servername: serverName }),
      ...(insecure === true && { rejectUnauthorized: false }),
    };
    return new Promise((resolve, reject) => {
      const sent = request(new URL(path, server), options, resolve);
      sent.once('error', (error) => reject(SeineError.from(error, `${method} ${path}`)));
      sent.end(payload);
    });
  }
}

/** The node a pod is bound to; undefined if it is not scheduled. */
export function nodeOf({ spec }: UnstructuredObject): string | undefined {
  return typeof spec === 'object' && spec !== null && 'nodeName' in spec && typeof spec.nodeName === 'string' ? spec.nodeName : undefined;
}

/** `namespace/name`, or the name alone of cluster-scoped objects. */
export function keyOf({ namespace, name }: KubeMetadata): string {
  return namespace === undefined ? name : `${namespace}/${name}`;
}

async function readBody(response: IncomingMessage, doing: string): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of response) {
    const bytes = Buffer.from(chunk);
    size += bytes.length;
    if (size > bodyBytesMax) throw new SeineError('PROTOCOL', `${doing}: more than ${bodyBytesMax} bytes`);
    chunks.push(bytes);
  }
  return Buffer.concat(chunks).toString('utf8');
}

/** Cuts at bytes and decodes whole lines, so that a character in two chunks is decoded correctly. */
async function* linesOf(response: IncomingMessage): AsyncGenerator<string> {
  let pending: Buffer[] = [];
  let size = 0;
  for await (const chunk of response) {
    let rest = Buffer.from(chunk);
    for (let end = rest.indexOf(10); end >= 0; end = rest.indexOf(10)) {
      yield Buffer.concat([...pending, rest.subarray(0, end)]).toString('utf8');
      pending = [];
      size = 0;
      rest = rest.subarray(end + 1);
    }
    pending.push(rest);
    size += rest.length;
    if (size > bodyBytesMax) throw new SeineError('PROTOCOL', `a watch event of more than ${bodyBytesMax} bytes`);
  }
}
