import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { afterAll, expect, it } from 'vitest';
import { exampleHeld, exampleInputs } from '../../../test/support/example-bundle.ts';
import { recordingTerminal } from '../../../test/support/recording-terminal.ts';
import { compileInputs } from '../../operations/compiler-inputs/compile-inputs.ts';
import { readInputs } from '../../operations/compiler-inputs/inputs-document.ts';
import { ArchiveWriter } from '../../operations/support-bundle/archive.ts';
import { BundledNode } from '../../simulate/cluster/bundled-node.ts';
import { run } from '../program.ts';

const folder = mkdtempSync(join(tmpdir(), 'seinectl-trace-bundle-'));
afterAll(() => rmSync(folder, { recursive: true }));

async function bundle(name: 'n1' | 'n2', held = exampleHeld(name), evidence?: string): Promise<string> {
  const path = join(folder, `${name}-${Math.random()}.tar.gz`);
  const archive = new ArchiveWriter(path, `seine-${name}`);
  await archive.add('agent/inputs.ndjson', Buffer.from(exampleInputs(name)));
  await archive.add('openflow/held.ndjson', Buffer.from(held));
  if (evidence !== undefined) await archive.add('agent/policy-evidence.ndjson', Buffer.from(evidence));
  await archive.close();
  return path;
}

async function trace(...args: readonly string[]) {
  const { terminal, out, err } = recordingTerminal();
  const code = await run(['trace', ...args], terminal, Readable.from(['']));
  return { code, out: out.join('\n'), err: err.join('\n') };
}

it('follows a packet over the nodes of two bundles: exit 0', async () => {
  const both = ['--bundle', await bundle('n1'), '--bundle', await bundle('n2')];
  const { code, out } = await trace('shop/n1-0', '10.10.4.9', '5432', ...both);
  expect([code, out]).toEqual([0, expect.stringMatching(/^ALLOWED .*n1 .*is sent to n2.*n2 .*Delivered to pod shop\/n2-0 on n2\./s)]);
  expect(out).toContain('meaning not compared · desired allowed');
  const established = await trace('shop/n1-0', '10.10.4.9', '5432', '--established', ...both);
  expect([established.code, established.out]).toEqual([0, expect.stringContaining('assumed to be established')]);
});

it('names the node whose bundle is missing: exit 3', async () => {
  const { code, out } = await trace('shop/n1-0', '10.10.4.9', '5432', '--bundle', await bundle('n1'));
  expect([code, out]).toEqual([3, expect.stringContaining('The part of n2 is unknown: there is no bundle of this node')]);
});

it('traces without the objects that the agent could not read, and gives the reason', async () => {
  const path = await bundle('n1', exampleHeld('n1'), '{"kind":"failed","message":"the API server is down"}\n');
  const { code, out, err } = await trace('shop/n1-0', 'shop/n1-1', '80', '--bundle', path);
  expect([code, out]).toEqual([0, expect.stringContaining('meaning not compared · desired allowed')]);
  expect(err).toBe(
    `seinectl: agent/policy-evidence.ndjson in ${path} is not complete: the agent could not read them: the API server is down`,
  );
});

it('names the flow that the bridge lacked: exit 4', async () => {
  const broken = await bundle(
    'n1',
    exampleHeld('n1', (owner) => !owner.includes('n1-1')),
  );
  const { code, out } = await trace('shop/n1-0', 'shop/n1-1', '80', '--family', 'ipv4', '--bundle', broken);
  expect([code, out]).toEqual([4, expect.stringContaining('The bridge of n1 lacks the desired flows, first in table ingressEntry')]);
});

it('has the flows that seinectl compile prints, byte for byte', () => {
  const read = readInputs(exampleInputs('n1'));
  const node = new BundledNode({ read, heldText: exampleHeld('n1'), owners: [], pods: new Map() });
  expect([...node.compiled]).toEqual([...compileInputs(readInputs(exampleInputs('n1')).inputs).entries]);
  expect(node.compiled.size).toBeGreaterThan(100);
});

it.each([
  [
    'an archive without inputs',
    async () => {
      const path = join(folder, 'empty.tar.gz');
      const archive = new ArchiveWriter(path, 'seine');
      await archive.add('manifest.json', Buffer.from('{}'));
      await archive.close();
      return ['shop/a', 'shop/b', '--bundle', path];
    },
    'has no agent/inputs.ndjson',
  ],
  ['a pod that the bundle does not know', async () => ['shop/none', 'shop/n1-0', '--bundle', await bundle('n1')], 'from: "shop/none"'],
  ['a bundle together with a probe', () => Promise.resolve(['a/b', 'a/c', '--bundle', 'x', '--probe']), 'cannot be used with'],
])('refuses %s: exit 2', async (_, args, message) => {
  const { code, err } = await trace(...(await args()));
  expect([code, err]).toEqual([2, expect.stringContaining(message)]);
});
