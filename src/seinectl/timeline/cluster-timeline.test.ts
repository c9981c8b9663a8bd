import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { type FakeAgent, FakeFleet } from '../../../test/support/fake-fleet.ts';
import { recordingTerminal } from '../../../test/support/recording-terminal.ts';
import { plain } from '../paint.ts';
import { timeOption } from '../time-option.ts';
import { clusterTimeline } from './cluster-timeline.ts';
import { eventLine, mergedEvents, parsedEvent, type TimelineEvent } from './timeline-lines.ts';
import { timelineSubject } from './timeline-query.ts';

let folder: string;
let fleet: FakeFleet | undefined;
/** Lines of the last call so far. */
let printed: readonly string[] = [];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'seine-timeline-'));
});
afterEach(async () => {
  await fleet?.close();
  rmSync(folder, { recursive: true, force: true });
});

const event = (time: string, kind: string, subjects: readonly string[], text: string, data: object = {}): string =>
  JSON.stringify({ time: `2026-11-29T14:02:${time}Z`, kind, subjects, text, data });
const endLine = '{"end":true}';

const node1 = [
  event('10.000', 'object.changed', ['service/shop/db'], 'received Service shop/db, version 9: ports changed', {
    name: 'shop/db',
    version: '9',
  }),
  event('10.300', 'entries.refused', ['service/shop/db'], 'bridge: entries are refused'),
].join('\n');
const node2 = event('10.100', 'object.changed', ['service/shop/db'], 'received Service shop/db, version 9: ports changed', {
  name: 'shop/db',
  version: '9',
});

async function shown(
  agents: readonly FakeAgent[],
  objects: Readonly<Record<string, readonly object[]>>,
  subject?: string,
  stopped?: (requests: readonly string[]) => boolean,
) {
  fleet = new FakeFleet({ agents, objects });
  const port = await fleet.listen();
  const kubeconfig = join(folder, 'kubeconfig');
  const cluster = { name: 'c', cluster: { server: `http://127.0.0.1:${port}` } };
  const context = { name: 'c', context: { cluster: 'c', user: 'me' } };
  writeFileSync(
    kubeconfig,
    JSON.stringify({ clusters: [cluster], users: [{ name: 'me', user: {} }], contexts: [context], 'current-context': 'c' }),
  );
  const { terminal, out, err } = recordingTerminal();
  printed = out;
  const query = {
    fromMs: Date.parse('2026-11-29T14:00:00Z'),
    follow: stopped !== undefined,
    ...(subject === undefined ? {} : { subject }),
  };
  const options = { kubeconfig, namespace: 'seine-system', timeout: 10, isJson: false };
  const interrupted = new AbortController();
  const code = clusterTimeline(query, options, terminal, {}, interrupted);
  if (stopped) await vi.waitFor(() => expect(stopped(fleet?.requests ?? [])).toBe(true), 30_000);
  if (stopped) interrupted.abort();
  return { code: await code, out, err, commands: fleet.commands, requests: fleet.requests };
}

const answering = (node: string, ...lines: readonly string[]): FakeAgent => ({ node, reply: { answer: [...lines, endLine].join('\n') } });

describe('the timeline of a cluster', () => {
  it.each([
    ['', false],
    [', from agents without relay', true],
  ])(
    'is merged by time over nodes and Events of the API server, with one line for an object that several nodes received%s',
    async (_, isOld) => {
      const involvedObject = { kind: 'Service', namespace: 'shop', name: 'db' };
      const events = [
        {
          metadata: {},
          reason: 'ServiceNotServed',
          message: 'no endpoints',
          count: 3,
          lastTimestamp: '2026-11-29T14:02:10Z',
          involvedObject,
        },
      ];
      const { code, out, commands, requests } = await shown(
        [answering('node-1', node1), answering('node-2', node2), answering('node-3')].map((agent) => ({ ...agent, isOld })),
        { '/api/v1/namespaces/shop/events': events },
        'service/shop/db',
      );
      expect(out).toEqual([
        '2026-11-29T14:02:10.000Z node-1,node-2 object.changed     received Service shop/db, version 9: ports changed',
        '2026-11-29T14:02:10.000Z API          event.ServiceNotServed no endpoints (3 times)',
        '2026-11-29T14:02:10.300Z node-1       entries.refused    bridge: entries are refused',
      ]);
      expect(code).toBe(0);
      if (isOld) expect(commands.at(-1)?.slice(0, 4)).toEqual(['seinectl', 'timeline', 'service', 'shop/db']);
      else expect(requests).toEqual(Array(3).fill(expect.stringMatching(/^\/v1\/timeline\?from=\d+&subject=service%2Fshop%2Fdb$/)));
    },
  );

  it('reports that there are no events', async () => {
    const { code, out, err } = await shown([answering('node-1'), answering('node-2')], {}, 'service/shop/db');
    expect({ code, out, err }).toEqual({ code: 0, out: [], err: ['seinectl: no events in this time'] });
  });

  it('names agents that do not answer, and ends with 3', async () => {
    const { code, out, err } = await shown(
      [answering('node-1', node1), { node: 'node-2', isOld: true, reply: 'exit' }],
      {},
      'service/shop/db',
    );
    expect(out).toHaveLength(2);
    expect(err.join('\n')).toContain('? no answer: seinectl ended with');
    expect(code).toBe(3);
  });

  it('follows agents by streams, begins them again, and prints each event once', async () => {
    const streams = (requests: readonly string[]) => requests.filter((path) => path.includes('follow=1')).length;
    const agents = [answering('node-1', node1), answering('node-2', node2)];
    const { code, out } = await shown(agents, {}, undefined, (requests) => streams(requests) >= 4);
    expect(out).toHaveLength(2);
    expect(code).toBe(0);
  });

  it('follows an agent that replaces another one, and prints each event of the history once', async () => {
    let isReplaced = false;
    const after = event('15.000', 'agent.started', ['node/node-1'], 'the agent has started');
    const both = [answering('node-1', node1), answering('node-2', node2)];
    const { code, out, err } = await shown(both, {}, undefined, (requests) => {
      if (!isReplaced && requests.filter((path) => path.includes('follow=1')).length >= 2) {
        isReplaced = true;
        fleet?.replaceAgents([{ ...answering('node-1', node1, after), pod: 'seine-agent-b' }, ...both.slice(1)]);
      }
      return printed.some((line) => line.includes('the agent has started'));
    });
    expect(out.map((line) => line.replace(/^\S+ (\S+) +(\S+) .*/, '$1 $2'))).toEqual([
      'node-1,node-2 object.changed',
      'node-1 entries.refused',
      'node-1 agent.started',
    ]);
    expect(err).toContain('seinectl: node-1: follows seine-agent-b');
    expect(code).toBe(0);
  });

  it('asks the agent of the node alone', async () => {
    const { out, commands } = await shown([answering('node-1', node1), answering('node-2', node2)], {}, 'node/node-2');
    expect([out.length, commands.length]).toEqual([1, 1]);
  });
});

describe('lines of events', () => {
  it('escape what a node sent, and refuse other forms', () => {
    const read = parsedEvent(event('10.000', 'pod.port', ['pod/a/b\u001b[2J'], 'x\u202ey'), ['n1']);
    expect(eventLine(read as TimelineEvent, { withNodes: true }, { width: 80, paint: plain })).toContain('pod/a/b\\u001b[2J  x\\u202ey');
    for (const text of ['', '{', '[]', endLine, '{"time":"yesterday","kind":"a","subjects":[],"text":""}'])
      expect(parsedEvent(text, [])).toBeUndefined();
  });

  it('stay separate if a node received an object again', () => {
    const of = (second: string, node: string) =>
      parsedEvent(event(second, 'endpoint.added', ['service/shop/db'], 'added', { service: 'shop/db', endpoints: ['a'] }), [
        node,
      ]) as TimelineEvent;
    const merged = mergedEvents([of('10.000', 'n1'), of('10.001', 'n2'), of('20.000', 'n2'), of('20.001', 'n1'), of('20.000', 'n2')]);
    expect(merged.map(({ time, nodes }) => `${time.slice(17, 19)} ${nodes.join()}`)).toEqual(['10 n1,n2', '20 n2,n1']);
  });

  it('stay separate if nodes did different things', () => {
    const of = (node: string) =>
      parsedEvent(event('10.000', 'drift.found', [], 'bridge: another program changed 3 entries'), [node]) as TimelineEvent;
    expect(mergedEvents([of('n1'), of('n2')])).toHaveLength(2);
  });
});

describe('options', () => {
  it('accept times in two forms', () => {
    expect(timeOption('2026-11-29T14:02:10Z')).toBe(Date.parse('2026-11-29T14:02:10Z'));
    expect(Math.abs(Date.now() - 7_200_000 - timeOption('2h'))).toBeLessThan(1_000);
    for (const text of ['', '2', 'yesterday', '2026-11-29', '14:02']) expect(() => timeOption(text)).toThrow('is neither a duration');
  });

  it('name the subject, or what is wrong with it', () => {
    expect([timelineSubject('pod', 'shop/web-0'), timelineSubject('service', 'db'), timelineSubject('policy', 'x')]).toEqual([
      'pod/shop/web-0',
      'service/default/db',
      'policy/x',
    ]);
    expect(() => timelineSubject('pods', 'x')).toThrow('kind: "pods" is not one of pod, service, node, policy');
    expect(() => timelineSubject('pod', undefined)).toThrow('name: the name of the pod is missing');
    expect(() => timelineSubject('node', 'a/b')).toThrow('name: "a/b" is not NAME');
  });
});
