import { describe, expect, it, vi } from 'vitest';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { AgentPod } from '../fleet/agents.ts';
import { FollowedAgents, followNode } from './follow-nodes.ts';

const agent = { node: 'node-1', pod: 'seine-agent-a' } as AgentPod;
const startMs = Date.parse('2026-11-29T14:02:00Z');
const line = (second: number): string =>
  JSON.stringify({ time: `2026-11-29T14:02:${second}.000Z`, kind: 'drift.found', subjects: [], text: `event ${second}`, data: {} });

/** Follows an agent whose streams have these lines, or fail. */
async function follow(streams: readonly (readonly string[] | Error)[]) {
  const stop = new AbortController();
  const [paths, arrived, silent]: [string[], string[], string[]] = [[], [], []];
  let at = 0;
  const lines = async function* (path: string): AsyncGenerator<string> {
    paths.push(path);
    const stream = streams[at++] ?? [];
    if (stream instanceof Error) throw stream;
    yield* stream;
  };
  const end = followNode(
    agent,
    {
      relays: { of: () => ({ client: { lines } }) },
      startMs,
      query: { fromMs: 5_000, untilMs: 99_000, follow: true, subject: 'node/node-1' },
      arrived: ({ text, nodes }) => void arrived.push(`${nodes.join()} ${text}`),
      silent: ({ node }, cause) => void silent.push(`${node}: ${cause}`),
      wallMs: () => startMs + 3_600_000,
      pause: async () => {
        if (at >= streams.length) stop.abort();
        await Promise.resolve();
      },
    },
    new Map(),
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
  const from = (second: number): string => `/v1/timeline?from=${startMs + (second - 20) * 1_000}&subject=node%2Fnode-1&follow=1`;
  expect(paths).toEqual([from(0), from(20), from(20), from(20)]);
});

it('ends for an agent without a relay, and with a fault of this program', async () => {
  const old = new SeineError('UNAVAILABLE', 'the image is older', { context: { relay: 'none' } });
  expect((await follow([old, []])).outcome).toBe('no relay');
  expect((await follow([new Error('a fault'), []])).outcome).toMatchObject({ code: 'INVARIANT' });
});

describe('agents whose pods are replaced', () => {
  /** Agents whose streams stay open until their pods are gone, after the events of the node that are on disk since the asked time. */
  function following() {
    const disk = new Map<string, string[]>();
    const [arrived, paths]: [string[], string[]] = [[], []];
    const open = new Map<string, () => void>();
    const stop = new AbortController();
    const client = ({ node, pod }: AgentPod) => ({
      lines: async function* (path: string, _: string, signal?: AbortSignal): AsyncGenerator<string> {
        paths.push(`${pod} ${path}`);
        const fromMs = Number(/from=(\d+)/.exec(path)?.[1]);
        for (const each of disk.get(node) ?? []) if (Date.parse(JSON.parse(each).time) >= fromMs) yield each;
        await new Promise<void>((resolve) => {
          open.set(pod, resolve);
          signal?.addEventListener('abort', () => resolve(), { once: true });
        });
        open.delete(pod);
        signal?.throwIfAborted();
      },
    });
    const followed = new FollowedAgents(
      {
        relays: { of: (pod) => ({ client: client(pod) }) },
        ...{ startMs, query: { fromMs: 5_000, follow: true }, silent: () => undefined, wallMs: () => startMs + 3_600_000 },
        arrived: ({ text, nodes }) => void arrived.push(`${nodes.join()} ${text}`),
      },
      stop.signal,
    );
    return { disk, arrived, paths, open, stop, followed };
  }
  const podOf = (node: string, pod: string): AgentPod => ({ node, pod }) as AgentPod;

  it('are followed from the last event of their node, and those that are gone no longer', async () => {
    const { disk, arrived, paths, open, stop, followed } = following();
    disk.set('node-1', [line(10), line(50)]);
    expect(followed.follow([podOf('node-1', 'a'), podOf('node-2', 'b')])).toHaveLength(2);
    await vi.waitFor(() => expect([...open.keys()].toSorted()).toEqual(['a', 'b']));
    expect(arrived).toEqual(['node-1 event 10', 'node-1 event 50']);
    disk.get('node-1')?.push(line(55)); // recorded by the old agent, which ends without sending it
    expect(followed.follow([podOf('node-1', 'c'), podOf('node-2', 'b')]).map(({ pod }) => pod)).toEqual(['c']);
    await vi.waitFor(() => expect([...open.keys()].toSorted()).toEqual(['b', 'c']));
    expect(arrived.slice(2)).toEqual(['node-1 event 50', 'node-1 event 55']);
    expect(paths.at(-1)).toContain(`c /v1/timeline?from=${startMs + 30_000}&`);
    expect(followed.follow([podOf('node-2', 'b')])).toEqual([]);
    await vi.waitFor(() => expect([...open.keys()]).toEqual(['b']));
    followed.throwIfFailed();
    stop.abort();
  });

  it('are those of the same nodes as before where all are too many', async () => {
    const { open, stop, followed } = following();
    followed.follow([podOf('node-7', 'a')]);
    await vi.waitFor(() => expect([...open.keys()]).toEqual(['a']));
    followed.follow([]); // it is being replaced
    const all = ['node-1', 'node-2', 'node-7'].map((node) => podOf(node, `${node}-b`));
    expect(followed.among(all, 2)).toEqual([podOf('node-7', 'node-7-b')]);
    expect(followed.among(all, 3)).toEqual(all);
    stop.abort();
  });

  it('report a fault of this program, and not that their pod is gone', async () => {
    const stop = new AbortController();
    const broken = {
      lines: () => {
        throw new Error('a fault');
      },
    } as never;
    const followed = new FollowedAgents(
      {
        relays: { of: () => ({ client: broken }) },
        ...{ startMs, query: { fromMs: 0, follow: true }, silent: () => undefined, wallMs: () => startMs, arrived: () => undefined },
      },
      stop.signal,
    );
    followed.follow([podOf('node-1', 'a')]);
    await vi.waitFor(() => expect(() => followed.throwIfFailed()).toThrow());
    stop.abort();
  });
});
