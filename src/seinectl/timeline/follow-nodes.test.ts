import { expect, it } from 'vitest';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { AgentPod } from '../fleet/agents.ts';
import { followNode } from './follow-nodes.ts';

const agent = { node: 'node-1', pod: 'seine-agent-a' } as AgentPod;
const line = (second: number): string =>
  JSON.stringify({ time: `2026-11-29T14:02:${second}.000Z`, kind: 'drift.found', subjects: [], text: `event ${second}`, data: {} });

/** Follows an agent whose streams have these lines, or fail; the wall clock advances by ten seconds with each line. */
async function follow(streams: readonly (readonly string[] | Error)[]) {
  const stop = new AbortController();
  const [paths, arrived, silent]: [string[], string[], string[]] = [[], [], []];
  let [wallMs, at] = [100_000, 0];
  const lines = async function* (path: string): AsyncGenerator<string> {
    paths.push(path);
    const stream = streams[at++] ?? [];
    if (stream instanceof Error) throw stream;
    for (const each of stream) {
      wallMs += 10_000;
      yield each;
    }
  };
  const end = followNode(
    agent,
    {
      relays: { of: () => ({ client: { lines } }) },
      query: { fromMs: 5_000, untilMs: 99_000, follow: true, subject: 'node/node-1' },
      arrived: ({ text, nodes }) => void arrived.push(`${nodes.join()} ${text}`),
      silent: ({ node }, cause) => void silent.push(`${node}: ${cause}`),
      wallMs: () => wallMs,
      pause: async () => {
        if (at >= streams.length) stop.abort();
        await Promise.resolve();
      },
    },
    stop.signal,
  );
  const outcome = await end.catch((thrown: unknown) => thrown);
  return { outcome, paths, arrived, silent };
}

const gone = new SeineError('UNAVAILABLE', 'no agent answers');

it('begins a stream again where it ended, and names an agent that does not answer once', async () => {
  const { paths, arrived, silent } = await follow([[line(10), '', line(20)], gone, gone, [line(20), line(30)]]);
  expect(arrived).toEqual(['node-1 event 10', 'node-1 event 20', 'node-1 event 20', 'node-1 event 30']);
  expect(silent).toEqual(['node-1: no agent answers']);
  const from = (ms: number): string => `/v1/timeline?from=${ms}&subject=node%2Fnode-1&follow=1`;
  expect(paths).toEqual([from(80_000), from(110_000), from(110_000), from(110_000)]);
});

it('ends for an agent without a relay, and with a fault of this program', async () => {
  const old = new SeineError('UNAVAILABLE', 'the image is older', { context: { relay: 'none' } });
  expect((await follow([old, []])).outcome).toBe('no relay');
  expect((await follow([new Error('a fault'), []])).outcome).toMatchObject({ code: 'INVARIANT' });
});
