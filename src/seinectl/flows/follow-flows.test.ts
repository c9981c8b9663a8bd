import { expect, it } from 'vitest';
import type { FlowView } from '../../api/flow-log.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { AgentPod } from '../fleet/agents.ts';
import { followFlows } from './follow-flows.ts';

const startMs = Date.parse('2026-11-30T14:00:00Z');
const agent = (node: string, pod: string, trouble?: string): AgentPod => ({ node, pod, ...(trouble && { trouble }) }) as AgentPod;
const flowAt = (node: string, second: number, number: number): FlowView => ({
  ...{ node, number, time: new Date(startMs + second * 1_000).toISOString(), event: 'denied', verdict: 'denied', reporter: 'destination' },
  ...{ family: 'ipv4', protocol: 'TCP' },
  source: { address: '10.0.0.5', port: 40_000 + number, kind: 'pod', namespace: 'shop', name: 'web-0' },
  destination: { address: '10.0.1.5', port: 80, kind: 'pod', namespace: 'shop', name: 'db-0' },
});

/** Follows until the given number of questions were asked. */
async function followed(rounds: number, finds: readonly (readonly AgentPod[] | Error)[], first = [agent('node-1', 'a')]) {
  const [asked, printed, remarks]: [string[], string[], string[]] = [[], [], []];
  let found = 0;
  const end = followFlows(first, {
    ask: (pods) => {
      asked.push(pods.map(({ pod }) => pod).join());
      const flows = (node: string): FlowView[] => [flowAt(node, 1, 1), flowAt(node, 1 + asked.length, 1 + asked.length)];
      return Promise.resolve(pods.map((pod) => ({ pod, answer: { flows: flows(pod.node), state: undefined } })));
    },
    find: () => {
      const next = finds[found++] ?? [];
      return next instanceof Error ? Promise.reject(next) : Promise.resolve(next);
    },
    findAgainMs: 10_000,
    print: (flows) => void printed.push(...flows.map(({ node, number }) => `${node} ${number}`)),
    seeState: () => undefined,
    remark: (text) => void remarks.push(text),
    wallMs: () => startMs,
    pause: () => (asked.length >= rounds ? Promise.reject(new SeineError('CANCELLED', 'interrupted')) : Promise.resolve()),
  });
  await expect(end).rejects.toMatchObject({ code: 'CANCELLED' });
  return { asked, printed, remarks };
}

it('prints each record once', async () => {
  const { printed } = await followed(4, []);
  expect(printed).toEqual([...new Set(printed)]);
  expect(printed.slice(0, 2)).toEqual(['node-1 1', 'node-1 2']);
});

it('follows the pods that replace agents, and new nodes, once they run', async () => {
  const { asked, remarks } = await followed(11, [[agent('node-1', 'b', 'is Pending')], [agent('node-1', 'b'), agent('node-2', 'c')]]);
  expect([asked[0], asked[5], asked[9], asked[10]]).toEqual(['a', 'a', 'a', 'b,c']);
  expect(remarks).toEqual(['node-1 is not followed: is Pending', 'node-1: follows b', 'node-2: follows c']);
});

it('stays with its nodes without the API server, and where all are too many', async () => {
  const many = Array.from({ length: 65 }, (_, at) => agent(`node-${at}`, `new-${at}`));
  const { asked } = await followed(11, [new SeineError('UNAVAILABLE', 'no answer'), many]);
  expect([asked[5], asked[10]]).toEqual(['a', 'new-1']);
});

it('names a node whose agent is not followed any more, once for each reason', async () => {
  const both = [agent('node-1', 'a'), agent('node-2', 'b')];
  const waits = [agent('node-1', 'a'), agent('node-2', 'b', 'its container agent waits: CrashLoopBackOff')];
  const { asked, remarks } = await followed(26, [both, waits, waits, [agent('node-1', 'a')], both], both);
  expect(remarks).toEqual([
    'node-2 is not followed: its container agent waits: CrashLoopBackOff',
    'node-2 is not followed: no agent has a pod there',
    'node-2: follows b',
  ]);
  expect([asked[5], asked[10], asked[25]]).toEqual(['a,b', 'a', 'a,b']);
});
