import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { afterAll, describe, expect, it } from 'vitest';
import { recordingTerminal } from '../../../test/support/recording-terminal.ts';
import { evidenceText, objectsName, policyEvidenceName, servedText, writeBundle } from '../../../test/support/written-bundle.ts';
import type { ForwardedObjects } from '../../policy/verify/forwarding-reference/forwarded-objects.ts';
import { run } from '../program.ts';
import { readBundleObjects } from './bundle-objects.ts';

const folder = mkdtempSync(join(tmpdir(), 'seinectl-bundle-objects-'));
afterAll(() => rmSync(folder, { recursive: true }));
let written = 0;
const newPath = (): string => join(folder, `${written++}.tar.gz`);

const pod = (name: string, app: string, ip: string) => ({
  metadata: { namespace: 'shop', name, labels: { app } },
  spec: { nodeName: 'n1', containers: [], initContainers: [] },
  status: { phase: 'Running', podIPs: [{ ip }] },
});
const objects: ForwardedObjects = {
  namespaces: [{ metadata: { name: 'shop', labels: { 'kubernetes.io/metadata.name': 'shop' } } }],
  nodes: [
    {
      metadata: { name: 'n1' },
      spec: { podCIDRs: ['10.10.0.0/24'] },
      status: { addresses: [{ type: 'InternalIP', address: '192.0.2.1' }] },
    },
  ],
  pods: [pod('web', 'web', '10.10.0.5'), pod('db', 'db', '10.10.0.9')],
  networkPolicies: [],
  clusterNetworkPolicies: [],
  services: [
    {
      metadata: { namespace: 'shop', name: 'db' },
      spec: { clusterIPs: ['10.96.0.20'], selector: { app: 'db' }, ports: [{ port: 5432 }] },
    } as never,
  ],
  slices: [
    {
      metadata: { namespace: 'shop', name: 'db-x', labels: { 'kubernetes.io/service-name': 'db' } },
      addressType: 'IPv4',
      endpoints: [{ addresses: ['10.10.0.9'], nodeName: 'n1', conditions: { ready: true } }],
      ports: [{ name: '', port: 5432, protocol: 'TCP' }],
    } as never,
  ],
};
const evidence = { [policyEvidenceName]: evidenceText(objects) };
const whole = { ...evidence, [objectsName]: servedText(objects) };

async function seinectl(...args: readonly string[]) {
  const { terminal, out, err } = recordingTerminal();
  const code = await run([...args], terminal, Readable.from(['']));
  return { code, out: out.join('\n'), err: err.join('\n') };
}

describe('objects of a bundle', () => {
  it('are those of the cluster, with Services, EndpointSlices and live settings', async () => {
    const read = await readBundleObjects(await writeBundle(newPath(), whole));
    expect(read).toMatchObject({ lacks: [], liveSettings: { 'policy.mode': 'audit' } });
    expect(read.objects).toEqual(JSON.parse(JSON.stringify(objects)));
  });

  it.each([
    ['of Seine 0.28', { seine: '0.28.0' }, {}, 'it was collected by Seine 0.28.0, which did not keep them'],
    [
      'of an agent without them',
      {
        parts: [
          { name: objectsName, state: 'absent' as const, bytes: 0, tookMs: 1, reason: 'this agent does not have it: its release is older' },
        ],
      },
      {},
      'its release is older',
    ],
    ['that was cut off', {}, { [objectsName]: servedText(objects).slice(0, -30) }, 'it was cut off'],
    [
      'of an agent without API server',
      {},
      { [objectsName]: servedText(objects, { kind: 'failed', message: 'refused' }) },
      'could not read them: refused',
    ],
  ])('are complete but for Services in one %s', async (_, manifest, files, reason) => {
    const { objects: read, lacks } = await readBundleObjects(await writeBundle(newPath(), { ...evidence, ...files }, manifest));
    expect([read.pods.length, read.services, read.slices]).toEqual([2, [], []]);
    expect(lacks).toEqual([expect.stringContaining(`has no Services and EndpointSlices: `)]);
    expect(lacks[0]).toContain(reason);
  });

  it.each([
    ['a line that is not JSON', { [objectsName]: 'x\n' }, `line 1 of ${objectsName} is not a JSON object`],
    [
      'an invalid object',
      { [objectsName]: '{"kind":"object","of":"slices","object":{"metadata":7}}\n' },
      `line 1 of ${objectsName}: .*metadata`,
    ],
    ['policies that were cut off', { [policyEvidenceName]: evidenceText(objects).slice(0, -9) }, 'is not complete: it was cut off'],
    [
      'a kind that this release does not know',
      { [objectsName]: '{"kind":"object","of":"__proto__","object":{}}\n{"kind":"end"}\n' },
      undefined,
    ],
  ])('are refused with %s, unless it does not matter', async (_, files, message) => {
    const read = readBundleObjects(await writeBundle(newPath(), { ...whole, ...files }));
    if (message === undefined) expect(await read).toMatchObject({ lacks: [], objects: { services: [] } });
    else await expect(read).rejects.toThrow(new RegExp(message));
  });
});

describe('commands with --bundle', () => {
  const proposal = join(folder, 'service.yaml');
  writeFileSync(
    proposal,
    'apiVersion: v1\nkind: Service\nmetadata: {name: db, namespace: shop}\nspec: {clusterIPs: [10.96.0.20], selector: {app: db}, ports: [{port: 5433}]}\n',
  );

  it('whatif compares the clients of a changed Service: exit 1', async () => {
    const { code, out } = await seinectl('whatif', '-f', proposal, '--bundle', await writeBundle(newPath(), whole));
    expect([code, out]).toEqual([1, expect.stringMatching(/BREAKS .*service shop\/db IPv4 5432\/TCP/)]);
  });
  it('whatif names the release of a bundle without Services: exit 3', async () => {
    const { code, out, err } = await seinectl(
      'whatif',
      '-f',
      proposal,
      '--bundle',
      await writeBundle(newPath(), evidence, { seine: '0.28.0' }),
    );
    expect([code, `${out}${err}`]).toEqual([
      3,
      expect.stringContaining('collected by Seine 0.28.0, which did not keep them; clients of changed'),
    ]);
  });

  const tests = join(folder, 'tests.yaml');
  writeFileSync(tests, 'tests: seine.dev/v1\ncases: [{from: shop/web, to: service:shop/db, port: 5432/TCP, expect: allow}]\n');
  it('policy test finds the pods of a Service, and says what an older bundle lacks', async () => {
    expect(await seinectl('policy', 'test', tests, '--bundle', await writeBundle(newPath(), whole))).toMatchObject({ code: 0, err: '' });
    const old = await seinectl('policy', 'test', tests, '--bundle', await writeBundle(newPath(), evidence, { seine: '0.28.0' }));
    expect([old.code, old.err]).toEqual([
      2,
      expect.stringContaining('has no Services and EndpointSlices: it was collected by Seine 0.28.0'),
    ]);
  });
});
