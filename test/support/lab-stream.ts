import { ApiError } from '../../lab/apiserver/errors/api-error.ts';
import { type ResourcePorts, serveResource } from '../../lab/apiserver/resource-handler.ts';
import { SeineError } from '../../src/base/errors/seine-error.ts';
import type { KubeHttp } from '../../src/kubernetes/client/http-client.ts';

/** Lists and watches of the lab's API server without a network between, so that thousands of sequences can be tested. */
export function labStream(ports: ResourcePorts): Pick<KubeHttp, 'stream'> {
  return {
    async *stream({ path, query = {} }: Parameters<KubeHttp['stream']>[0], signal: AbortSignal): AsyncGenerator<Uint8Array, void> {
      const response = await answerTo(ports, path, query);
      if (!('stream' in response)) {
        yield Buffer.from(response.body);
        return;
      }
      yield* piped((write, gone) => response.stream(write, gone), signal);
    },
  };
}

async function answerTo(ports: ResourcePorts, path: string, query: Readonly<Record<string, string>>) {
  try {
    return await serveResource(ports, {
      method: 'GET',
      path,
      query: new URLSearchParams(query),
      accept: 'application/json',
      contentType: '',
      userAgent: 'test',
      user: { name: 'admin', groups: ['system:masters'] },
      body: async () => new Uint8Array(),
    });
  } catch (thrown) {
    if (!(thrown instanceof ApiError)) throw thrown;
    const { code, reason, details, message } = thrown;
    const causes = (details.causes ?? []).map((cause) => cause.reason);
    throw new SeineError(code >= 500 ? 'UNAVAILABLE' : 'REFUSED', message, { context: { status: code, reason, causes } });
  }
}

/** Written data as the reader takes it; the writer waits for the reader. */
async function* piped(
  produce: (write: (text: string) => Promise<void>, signal: AbortSignal) => Promise<void>,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array, void> {
  const left = new AbortController();
  const gone = AbortSignal.any([signal, left.signal]);
  const pipe = new TransformStream<string, string>();
  const writer = pipe.writable.getWriter();
  const abort = () => void writer.abort(new Error('aborted')).catch(() => undefined);
  signal.addEventListener('abort', abort, { once: true });
  const producing = produce((text) => writer.write(text), gone)
    .then(() => writer.close())
    .catch(() => undefined); // the reader sees it, or has left
  try {
    for await (const text of pipe.readable) yield Buffer.from(text);
  } catch (thrown) {
    throw SeineError.from(signal.aborted ? signal.reason : thrown, 'watch');
  } finally {
    left.abort();
    signal.removeEventListener('abort', abort);
    await producing;
  }
}
