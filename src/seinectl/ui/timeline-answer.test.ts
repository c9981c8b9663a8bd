import { afterEach, describe, expect, it } from 'vitest';
import { type FakeAgent, FakeFleet } from '../../../test/support/fake-fleet.ts';
import { ClusterConnection } from './cluster-connection.ts';
import { timelineAnswer, timelineQuestion } from './timeline-answer.ts';

let fleet: FakeFleet | undefined;
let connection: ClusterConnection | undefined;
afterEach(async () => {
  connection?.close();
  await fleet?.close();
});

const line = (time: string, kind: string, subjects: readonly string[], text: string, data: object = {}): string =>
  JSON.stringify({ time: `2026-11-29T14:02:${time}Z`, kind, subjects, text, data });
const received = (time: string): string =>
  line(time, 'object.changed', ['service/shop/db'], 'received Service shop/db', { name: 'shop/db', version: '9' });
const answering = (node: string, ...lines: readonly string[]): FakeAgent => ({ node, reply: { answer: lines.join('\n') } });

async function asked(agents: readonly FakeAgent[], query: Readonly<Record<string, string>>, more: object = {}) {
  fleet = new FakeFleet({ agents, ...more });
  const server = new URL(`http://127.0.0.1:${await fleet.listen()}`);
  const access = { server, credentials: () => Promise.resolve({ headers: {}, tls: {} }), invalidate: () => undefined };
  connection = new ClusterConnection({ name: 'c', access, agentNamespace: 'seine-system', env: {} });
  return await timelineAnswer(new URLSearchParams(query), connection, new AbortController().signal);
}

const question = { kind: 'service', name: 'shop/db', since: '2026-11-29T14:00:00Z' };

describe('the timeline of the page', () => {
  it('merges nodes and Events of the API server by time, with how much each event matters', async () => {
    const involvedObject = { kind: 'Service', namespace: 'shop', name: 'db' };
    const events = [{ metadata: {}, reason: 'Slow', message: 'slow', lastTimestamp: '2026-11-29T14:02:12Z', involvedObject }];
    const agents = [
      answering('node-1', received('10.000'), line('10.300', 'entries.refused', ['service/shop/db', 'node/node-1', 'pod/a/b'], 'refused')),
      answering('node-2', received('10.100'), line('11.000', 'drift.found', [], 'another program')),
    ];
    const answer = await asked(agents, question, { objects: { '/api/v1/namespaces/shop/events': events } });
    expect(answer.events).toEqual([
      {
        time: '2026-11-29T14:02:10.000Z',
        kind: 'object.changed',
        weight: 'plain',
        nodes: ['node-1', 'node-2'],
        nodeCount: 2,
        about: [],
        text: 'received Service shop/db',
      },
      {
        time: '2026-11-29T14:02:10.300Z',
        kind: 'entries.refused',
        weight: 'bad',
        nodes: ['node-1'],
        nodeCount: 1,
        about: ['pod/a/b'],
        text: 'refused',
      },
      {
        time: '2026-11-29T14:02:11.000Z',
        kind: 'drift.found',
        weight: 'warning',
        nodes: ['node-2'],
        nodeCount: 1,
        about: [],
        text: 'another program',
      },
      { time: '2026-11-29T14:02:12.000Z', kind: 'event.Slow', weight: 'plain', nodes: [], nodeCount: 0, about: [], text: 'slow' },
    ]);
    expect(answer).toMatchObject({ subject: 'service/shop/db', agents: 2, answered: 2, silent: [], off: null, more: 0, withoutApi: null });
    expect(fleet?.requests).toEqual(Array(2).fill('/v1/timeline?from=1795960800000&subject=service%2Fshop%2Fdb'));
  });

  it('has no gap where an agent has no events, and names agents that do not answer', async () => {
    const answer = await asked(
      [answering('node-1'), { node: 'node-2', reply: 'exit' }, answering('node-3', 'false data', '{"time":7}')],
      question,
    );
    expect(answer).toMatchObject({ agents: 3, answered: 2, events: [], silent: [{ count: 1, nodes: ['node-2'] }] });
    expect(answer.silent[0]?.text).toContain('No such file or directory');
  });

  it('knows nodes that record nothing from those that do not answer', async () => {
    const unavailable = { '/v1/timeline': 'nothing is recorded: history.size is 0' };
    const answer = await asked([answering('node-1'), { node: 'node-2', reply: 'exit' }], question, { unavailable });
    expect(answer).toMatchObject({ agents: 2, answered: 0, off: { count: 1, nodes: ['node-1'] }, silent: [{ nodes: ['node-2'] }] });
  });

  it('keeps the newest 1,000 events, and counts the others', async () => {
    const many = Array.from({ length: 1_234 }, (_, at) =>
      line(`10.${String(at % 1_000).padStart(3, '0')}`, 'pod.port', [], `number ${at}`),
    );
    const answer = await asked(
      [answering('node-1', ...many), answering('node-2', line('59.000', 'pod.port', [], 'x'.repeat(5_000)))],
      question,
    );
    expect([answer.events.length, answer.more]).toEqual([1_000, 235]);
    expect(answer.events.at(-1)?.text).toHaveLength(500);
  });

  it('names the right that is missing', async () => {
    await expect(asked([{ node: 'node-1', reply: 'refused' }], question)).rejects.toMatchObject({ code: 'REFUSED' });
  });

  it('asks the agent of the node alone, and refuses a node without one', async () => {
    const agents = [answering('node-1'), answering('node-2', line('10.000', 'agent.ready', [], 'ready'))];
    expect(await asked(agents, { kind: 'node', name: 'node-2' })).toMatchObject({ agents: 1, subject: 'node/node-2' });
    await expect(
      timelineAnswer(new URLSearchParams({ kind: 'node', name: 'x' }), connection as ClusterConnection, new AbortController().signal),
    ).rejects.toThrow('name: there is no agent on node x');
  });
});

it.each([
  [{ kind: 'pods', name: 'x' }, 'kind: "pods" is not one of'],
  [{ kind: 'pod', name: ' ' }, 'name: the name of the pod is missing'],
  [{ kind: 'pod', name: '../x' }, 'name: "../x" is not NAMESPACE/NAME'],
  [{ kind: 'pod', name: 'a/b', since: 'yesterday' }, 'since: "yesterday" is neither a duration'],
  [{ kind: 'pod', name: 'a/b', since: '1970-01-01T00:00:00Z', until: 'noon' }, 'until: "noon" is not a time after'],
  [
    { kind: 'pod', name: 'a/b', since: '1970-01-01T00:10:00Z', until: '1970-01-01T00:10:00Z' },
    'until: "1970-01-01T00:10:00Z" is not a time after',
  ],
])('refuses the question %j', (query, message) => {
  expect(() => timelineQuestion(new URLSearchParams(query as Record<string, string>), 0)).toThrow(message);
});

it('asks for events up to a time', () => {
  const query = { kind: 'pod', name: 'a/b', since: '1970-01-01T00:00:01Z', until: '2m' };
  expect(timelineQuestion(new URLSearchParams(query), 600_000)).toMatchObject({ fromMs: 1_000, untilMs: 480_000 });
});
