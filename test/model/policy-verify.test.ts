import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { EvidenceNode, PolicyEvidence } from '../../src/api/policy-evidence.ts';
import { PolicyEngine } from '../../src/policy/engine/policy-engine.ts';
import type { HeldFlow } from '../../src/policy/verify/flow-reader/table-index.ts';
import type { PolicyObjects } from '../../src/policy/verify/reference/objects.ts';
import { plain } from '../../src/seinectl/paint.ts';
import { run } from '../../src/seinectl/program.ts';
import { exampleNode } from '../support/example-node.ts';
import { exampleCluster, policyObject } from '../support/policy-cluster.ts';
import { objectSet, provenNode, put } from './policy-proof.ts';
import { writtenBridge } from './written-bridge.ts';

/* `seinectl policy verify` with an agent that reports the state written here: flows are those of engine and compilers. */

const ingress = [{ from: [{ podSelector: { matchLabels: { app: 'api' } } }], ports: [{ port: 5432 }] }];
const objects: PolicyObjects = {
  ...exampleCluster,
  networkPolicies: [policyObject('shop/db', { podSelector: { matchLabels: { app: 'db' } }, ingress })],
};
const local = [
  { pod: 'shop/db', ofPort: 32784, addresses: ['10.10.0.5', 'fd00:10::5'] },
  { pod: 'shop/api', ofPort: 32785, addresses: ['10.10.0.6', 'fd00:10::6'] },
];
const { gateway, transport } = exampleNode;
const node: EvidenceNode = {
  kind: 'node',
  name: provenNode,
  mode: 'enforce',
  ownAddresses: [...gateway.addresses, ...transport].map(({ text }) => text),
  pods: local.map(({ pod, ...rest }) => ({ name: pod, ...rest, holds: 'policies' })),
};

/** @param setsMost sets of networks for which the node has numbers */
function flowsOf(of: PolicyObjects, setsMost?: number): readonly HeldFlow[] {
  const engine = new PolicyEngine(provenNode, setsMost);
  for (const each of objectSet(of).values()) put(engine, each);
  return writtenBridge(engine, exampleNode, local);
}

function evidence(flows: readonly HeldFlow[], said: EvidenceNode = node, of = objects): readonly PolicyEvidence[] {
  const base64 = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64');
  return [
    said,
    ...(['networkPolicies', 'namespaces', 'nodes', 'pods'] as const).flatMap((list) =>
      of[list].map((object) => ({ kind: 'object' as const, of: list, object })),
    ),
    ...flows.map(({ cookie, match, instructions, ...flow }) => ({
      kind: 'flow' as const,
      ...flow,
      cookie: cookie.toString(16),
      match: base64(match),
      instructions: base64(instructions),
    })),
    { kind: 'end' },
  ];
}

const good = flowsOf(objects);
/** Replacement of the row that denies everything but 5432. */
const opened = good.map((flow) => {
  const allows = good.find(({ table, priority }) => table === 87 && priority > flow.priority);
  return flow.table === 87 && allows ? { ...flow, cookie: 0xbadn, instructions: allows.instructions } : flow;
});

let folder = '';
let server: Server | undefined;
let answers: (readonly PolicyEvidence[])[] = [];

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'seinectl-'));
  server = createServer((_, response) => {
    const lines = answers.length > 1 ? answers.shift() : answers[0];
    response.end((lines ?? []).map((line) => `${JSON.stringify(line)}\n`).join(''));
  });
  await new Promise<void>((resolve) => server?.listen(join(folder, 'agent.sock'), resolve));
});
afterEach(async () => {
  server?.closeAllConnections();
  await new Promise((resolve) => server?.close(resolve));
  rmSync(folder, { recursive: true, force: true });
});

async function verify(...args: readonly string[]) {
  const [out, err]: [string[], string[]] = [[], []];
  const room = { width: Number.POSITIVE_INFINITY, paint: plain };
  const terminal = { room, line: (text: string) => void out.push(text), remark: (text: string) => void err.push(text) };
  const code = await run(['--socket', join(folder, 'agent.sock'), 'policy', 'verify', ...args], terminal, Readable.from(['']));
  return { code, out: out.join('\n'), err: err.join('\n') };
}

it('reports no difference for flows that enforce the policies', async () => {
  answers = [evidence(good)];
  const { code, out } = await verify();
  expect(out).toMatch(/^Node n1, mode enforce: what policies deny is dropped\n2 pods, 1 policy, \d+ flows, \d+ addresses in \d+ groups: /);
  expect(out).toContain('equal: the bridge implements the policies');
  expect(code).toBe(0);
});

it("reports a flow that differs, in its text, and the policies' verdict", async () => {
  answers = [evidence(opened)];
  const { code, out } = await verify('--pod', 'shop/db');
  expect(code).toBe(1);
  expect(out).toContain('DIFFERENT ingress of shop/db from 10.10.0.6, TCP 0-5431\n  policies: denied by shop/db\n  bridge: allowed, by\n');
  expect(out).toMatch(/cookie=0xbad, table=ingressNetworkPolicyPorts, priority=200,reg12=0x1 actions=.* # no owner/);
});

it('ignores a change without effect', async () => {
  answers = [evidence(opened), evidence(good)];
  const { code, out, err } = await verify();
  expect([code, out]).toEqual([0, expect.stringMatching(/\d+ were different in the first comparison only.*\nequal/)]);
  expect(err).toContain('looking again');
});

it('names pods without policies, and those left out', async () => {
  const pods = [
    {
      ...node.pods[0],
      name: 'shop/db',
      addresses: ['10.10.0.5', 'fd00:10::5'],
      holds: 'everything' as const,
      why: 'the policy mode of this node is off',
    },
    { name: 'shop/new', addresses: ['10.10.0.20'], ofPort: 32790, holds: 'policies' as const },
    { name: 'shop/old', addresses: ['10.10.0.21'], holds: 'policies' as const },
  ];
  answers = [evidence(flowsOf({ ...objects, networkPolicies: [] }), { ...node, mode: 'off', pods })];
  const { code, out } = await verify();
  expect(out).toContain('shop/db: compared with "everything" in place of the policies, for the policy mode of this node is off');
  expect(out).toContain('shop/new: not compared, the API server has no such running pod here');
  expect(out).toContain('shop/old: not compared, its policies are not decided since the agent started');
  expect(code).toBe(0);
});

describe('networks that are left out because numbers run out', () => {
  const networks = [
    { from: [{ ipBlock: { cidr: '203.0.113.0/24' } }], ports: [{ port: 80 }] },
    { from: [{ podSelector: { matchLabels: { app: 'api' } } }, { ipBlock: { cidr: '198.51.100.0/24' } }] },
  ];
  const wide: PolicyObjects = {
    ...exampleCluster,
    networkPolicies: [policyObject('shop/db', { podSelector: { matchLabels: { app: 'db' } }, ingress: networks })],
  };
  const leftOutRules = ['shop/db spec.ingress[0]', 'shop/db spec.ingress[1]'];

  it('are listed by rule, and are no difference', async () => {
    answers = [evidence(flowsOf(wide, 0), { ...node, leftOutRules }, wide)];
    const { code, out } = await verify();
    expect(out).toContain(
      `NETWORKS LEFT OUT of 2 rules, which count as denied (\`seinectl status\` has the reason): ${leftOutRules.join(', ')}`,
    );
    expect([code, out]).toEqual([0, expect.stringContaining('equal: the bridge implements the policies')]);
    const { out: json } = await verify('-o', 'json');
    expect(JSON.parse(json)).toMatchObject({ leftOutRules, differences: [] });
  });

  it('are a difference if the node does not report them, or the bridge allows them', async () => {
    answers = [evidence(flowsOf(wide, 0), node, wide)];
    expect(await verify()).toMatchObject({
      code: 1,
      out: expect.stringContaining('DIFFERENT ingress of shop/db from 203.0.113.0 and 2 alike, TCP 80'),
    });
    answers = [evidence(flowsOf(wide), { ...node, leftOutRules }, wide)];
    expect(await verify()).toMatchObject({ code: 1, out: expect.stringContaining('policies: denied by shop/db\n  bridge: allowed') });
  });
});

it('is not possible without the API server, with a partial answer, and for a pod of another node', async () => {
  answers = [[node, { kind: 'failed', message: 'the API server answered 403 Forbidden' }]];
  expect(await verify()).toMatchObject({ code: 2, err: 'could not be verified: the API server answered 403 Forbidden' });
  answers = [evidence(good).slice(0, -1)];
  expect(await verify()).toMatchObject({ code: 2, err: 'could not be verified: the answer breaks off' });
  answers = [evidence(good)];
  expect(await verify('--pod', 'shop/far')).toMatchObject({ code: 2, err: expect.stringContaining('has no pod "shop/far"') });
});
