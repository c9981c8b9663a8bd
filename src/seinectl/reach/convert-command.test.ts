import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { afterAll, expect, it } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { plain } from '../paint.ts';
import { run } from '../program.ts';

const folder = mkdtempSync(join(tmpdir(), 'seinectl-convert-'));
afterAll(() => rmSync(folder, { recursive: true }));

const write = (name: string, text: string): string => {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
};
const policy = (name: string, action: string, from: string): string => `---
apiVersion: crd.antrea.io/v1beta1
kind: ClusterNetworkPolicy
metadata: {name: "${name}"}
spec: {priority: 1, appliedTo: [{namespaceSelector: {}}], ingress: [{action: ${action}, from: [${from}]}]}
`;

async function convert(...args: string[]) {
  const [lines, remarks]: string[][] = [[], []];
  const terminal = {
    room: { width: Number.POSITIVE_INFINITY, paint: plain },
    line: (text: string) => void lines?.push(text),
    remark: (text: string) => void remarks?.push(text),
  };
  const code = await run(['policy', 'convert', ...args], terminal, Readable.from([]));
  return { code, out: lines?.join('\n') ?? '', remarks: remarks?.join('\n') ?? '' };
}

it('prints YAML documents that kubectl applies: exit 0', async () => {
  const file = write('whole.yaml', `${policy('a', 'Drop', '{podSelector: {}}')}${policy('b', 'Allow', '{podSelector: {}}')}`);
  const { code, out, remarks } = await convert('-f', file);
  expect(code).toBe(0);
  expect(parseAllDocuments(out).map((document) => document.toJS().metadata.name)).toEqual(['a', 'b']);
  expect(remarks).toBe('2 policies read, 2 ClusterNetworkPolicies written, 0 parts left out');
});

it('prints a list as JSON', async () => {
  const { out } = await convert('-f', write('json.yaml', policy('a', 'Drop', '{podSelector: {}}')), '-o', 'json');
  expect(JSON.parse(out)).toMatchObject({ kind: 'List', items: [{ kind: 'ClusterNetworkPolicy', metadata: { name: 'a' } }] });
});

it('names what is left out on standard error, with object, field and value: exit 3', async () => {
  const file = write(
    'lost.yaml',
    `${policy('a', 'Drop', '{ipBlock: {cidr: 10.0.0.0/8}}')}---\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\n`,
  );
  const { code, out, remarks } = await convert('-f', file);
  expect([code, out]).toEqual([3, '']);
  expect(remarks.split('\n')).toEqual([
    'left out: crd.antrea.io ClusterNetworkPolicy a spec.ingress[0].from[0] ({"ipBlock":{"cidr":"10.0.0.0/8"}}): the API has no networks and nodes in ingress rules',
    'left out: crd.antrea.io ClusterNetworkPolicy a spec.ingress[0].from ([{"ipBlock":{"cidr":"10.0.0.0/8"}}]): no entry is left; spec.ingress[0] is left out',
    '1 policy read, 0 ClusterNetworkPolicies written, 2 parts left out; not policies: 1 v1 Secret',
    'A part that is left out matches nothing: the rules after it decide about its connections.',
  ]);
});

it('escapes names that would move the cursor', async () => {
  const { remarks } = await convert('-f', write('escape.yaml', policy('a\\e[2J', 'Drop', '{fqdn: "\\e[2J"}')));
  expect(remarks).toContain('a\\u001b[2J');
  expect(remarks).not.toContain('\u001b');
});

it.each([
  ['text that is not YAML', 'a: ['],
  ['an object that is none', 'apiVersion: crd.antrea.io/v1beta1\nkind: NetworkPolicy\nmetadata: {name: a}\nspec: {priority: x}\n'],
  ['lists in lists in lists', `${'{kind: AList, items: ['.repeat(4)}${']}'.repeat(4)}`],
  ['text that is nested too deeply', '['.repeat(100_000)],
  [
    'aliases that grow without bound',
    `a0: &a0 [x]\n${Array.from({ length: 30 }, (_, at) => `a${at + 1}: &a${at + 1} [*a${at}, *a${at}]\n`).join('')}`,
  ],
])('refuses %s: exit 2', async (title, text) => {
  const { code, out, remarks } = await convert('-f', write(`${title.replaceAll(' ', '-')}.yaml`, text));
  expect([code, out]).toEqual([2, '']);
  expect(remarks).toContain(`${title.replaceAll(' ', '-')}.yaml`);
});

it('demands a file: exit 2', async () => {
  expect((await convert()).code).toBe(2);
});
