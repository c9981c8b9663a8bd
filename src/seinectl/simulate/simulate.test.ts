import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { afterAll, expect, it } from 'vitest';
import { recordingTerminal } from '../../../test/support/recording-terminal.ts';
import { run } from '../program.ts';

const folder = mkdtempSync(join(tmpdir(), 'seinectl-simulate-'));
afterAll(() => rmSync(folder, { recursive: true }));

function write(name: string, text: string): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}

const workload = (kind: string, name: string, replicas: number) => `---
apiVersion: apps/v1
kind: ${kind}
metadata: {name: ${name}, namespace: shop}
spec: {replicas: ${replicas}, template: {metadata: {labels: {app: ${name}}}, spec: {containers: [{name: c, ports: [{name: sql, containerPort: 5432}]}]}}}
`;
const manifests = write(
  'shop.yaml',
  `${workload('Deployment', 'web', 2)}${workload('Deployment', 'cache', 1)}${workload('StatefulSet', 'db', 2)}---
apiVersion: v1
kind: Service
metadata: {name: db, namespace: shop}
spec: {selector: {app: db}, ports: [{port: 5432, targetPort: sql}]}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: db-clients, namespace: shop}
spec: {podSelector: {matchLabels: {app: db}}, ingress: [{from: [{podSelector: {matchLabels: {app: web}}}], ports: [{port: sql}]}]}
`,
);

async function simulate(...args: readonly string[]) {
  const { terminal, out, err } = recordingTerminal();
  const code = await run(['simulate', '-f', manifests, ...args], terminal, Readable.from(['']));
  return { code, out, err: err.join('\n') };
}

it('traces a packet to a Service over the nodes of its endpoints, as a cluster would: exit 0', async () => {
  const { code, out } = await simulate('trace', 'shop/web-0', 'service:shop/db', '--family', 'ipv4');
  expect(code).toBe(0);
  expect(out.filter((line) => line.startsWith('ALLOWED')).length).toBeGreaterThan(0);
  expect(out.some((line) => line.includes('is sent to node-') && line.includes('over Geneve'))).toBe(true);
  expect(
    out.filter((line) => line.includes('meaning')).every((line) => line.includes('meaning allowed (rules allow it: shop/db-clients')),
  ).toBe(true);
});

it('names the drop of a denied packet, with equal verdicts: exit 1', async () => {
  const { code, out } = await simulate('trace', 'shop/cache-0', 'shop/db-0', '5432', '-o', 'json');
  const { traces } = JSON.parse(out.join('\n'));
  expect([code, traces.map(({ family }: { family: string }) => family)]).toEqual([1, ['ipv4', 'ipv6']]);
  for (const { paths, meanings } of traces)
    expect([paths[0].desired, meanings[0].verdict, paths[0].segments.at(-1).bridge.to]).toEqual(['denied', 'denied', 'policy.ingress']);
});

it('traces a later packet of a connection, which is assumed to be established', async () => {
  const { code, out } = await simulate('trace', 'shop/web-0', 'shop/db-1', '5432', '--established', '--family', 'ipv6');
  expect([code, out[0]]).toEqual([0, expect.stringContaining('assumed to be established')]);
});

it('shows the matrix, and what a change breaks', async () => {
  const matrix = await simulate('matrix', '--to', 'shop/db-0', '--port', '5432', '-o', 'csv');
  expect([matrix.code, matrix.out]).toEqual([
    0,
    expect.arrayContaining(['shop/web,shop/db,,TCP 5432,allow,shop/db-clients spec.ingress[0]']),
  ]);
  const change = await simulate('whatif', '--delete', 'service/shop/db');
  expect([change.code, change.out]).toEqual([
    1,
    expect.arrayContaining([
      expect.stringMatching(/^BREAKS {2}shop\/web \(2 pods\) -> service shop\/db IPv4 5432\/TCP .*no such Service$/),
    ]),
  ]);
});

it('evaluates test cases', async () => {
  const file = write(
    'tests.yaml',
    'tests: seine.dev/v1\ncases: [{from: shop/web, to: service:shop/db, expect: allow}, {from: shop/cache, to: shop/db, expect: deny}]\n',
  );
  expect(await simulate('test', file)).toMatchObject({ code: 0, out: [expect.stringContaining('2 of 2 cases as expected')] });
});

it.each([
  ['a pod that does not exist', ['trace', 'shop/none', 'shop/db-0'], 'from: "shop/none"'],
  ['a Service that does not exist', ['trace', 'shop/web-0', 'service:shop/none', '80'], 'is no Service'],
  ['no proposal', ['whatif'], 'nothing is proposed'],
])('refuses %s: exit 2', async (_, args, message) => {
  const { code, err } = await simulate(...args);
  expect([code, err]).toEqual([2, expect.stringContaining(message)]);
});

it('places pods of the API on their nodes, and keeps their addresses', async () => {
  const nodes = write(
    'nodes.yaml',
    `apiVersion: v1
kind: Node
metadata: {name: west}
spec: {podCIDRs: [10.77.0.0/24]}
status: {addresses: [{type: InternalIP, address: 192.0.2.10}]}
---
apiVersion: v1
kind: Pod
metadata: {name: fixed, namespace: shop}
spec: {nodeName: west, containers: [{name: c}]}
status: {phase: Running, podIPs: [{ip: 10.77.0.9}]}
`,
  );
  const { terminal, out } = recordingTerminal();
  expect(
    await run(['simulate', '-f', manifests, '-f', nodes, 'trace', 'shop/fixed', 'shop/web-1', '80'], terminal, Readable.from([''])),
  ).toBe(0);
  expect(out[0]).toMatch(/^ALLOWED {2}shop\/fixed \(10\.77\.0\.9, west\) -> shop\/web-1 10\.77\.0\.\d+ 80\/TCP$/);
});
