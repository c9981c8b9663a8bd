import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { afterAll, expect, it } from 'vitest';
import { plain } from '../paint.ts';
import { run } from '../program.ts';

const folder = mkdtempSync(join(tmpdir(), 'seinectl-reach-'));
afterAll(() => rmSync(folder, { recursive: true }));

mkdirSync(join(folder, 'policies'));
mkdirSync(join(folder, 'lists'));
const write = (name: string, text: string): string => {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
};
const workloads = write(
  'workloads.yaml',
  `apiVersion: apps/v1
kind: Deployment
metadata: {name: api, namespace: shop}
spec: {template: {metadata: {labels: {app: api}}, spec: {containers: [{name: c}]}}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: shop}
spec: {replicas: 1, template: {metadata: {labels: {app: db}}, spec: {containers: [{name: c}]}}}
`,
);
write(
  'policies/db.yaml',
  `apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: db, namespace: shop}
spec: {podSelector: {matchLabels: {app: db}}, ingress: [{from: [{podSelector: {matchLabels: {app: api}}}], ports: [{port: 5432}]}]}
`,
);
const denied = write(
  'deny.yaml',
  `apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: deny, namespace: shop}
spec: {podSelector: {matchLabels: {app: db}}, policyTypes: [Egress]}
`,
);
interface SarifResult {
  readonly ruleId: string;
  readonly locations: readonly {
    readonly physicalLocation?: {
      readonly artifactLocation: { readonly uri: string };
      readonly region: { readonly startLine: number; readonly startColumn: number };
    };
  }[];
}
const testFile = (name: string, expected: string, coverage = 100): string =>
  write(
    name,
    `tests: seine.dev/v1
objects: [policies/, workloads.yaml]
cases:
- {from: shop/api, to: shop/db, port: 5432, expect: ${expected}}
- {name: "<&\\"\\u0007", from: outside, to: shop/db, expect: deny}
coverage: {rules: ${coverage}}
`,
  );

async function seinectl(...args: string[]) {
  const [lines, remarks]: string[][] = [[], []];
  const terminal = {
    room: { width: Number.POSITIVE_INFINITY, paint: plain },
    line: (text: string) => void lines?.push(text),
    remark: (text: string) => void remarks?.push(text),
  };
  const code = await run(['policy', ...args], terminal, Readable.from([]));
  return { code, out: lines?.join('\n') ?? '', remarks: remarks?.join('\n') ?? '' };
}

it('tests policies of files: exit 0 as expected, 1 if a case or the coverage fails', async () => {
  const fine = testFile('fine.yaml', 'allow');
  expect(await seinectl('test', fine)).toMatchObject({ code: 0, out: `ok    ${fine}: 2 of 2 cases as expected, 100 % of 1 rule used` });
  const failed = await seinectl('test', testFile('failed.yaml', 'deny'));
  expect(failed.code).toBe(1);
  expect(failed.out).toContain('expected deny, found allow');
  expect(failed.out).toContain('shop/api-0 to shop/db-0, IPv4 and IPv6, TCP 5432: allow (shop/db spec.ingress[0])');
});

it('prints JUnit with escaped names, and JSON', async () => {
  const { out } = await seinectl('test', testFile('junit.yaml', 'deny'), '-o', 'junit');
  expect(out).toContain('tests="3" failures="1"');
  expect(out).toContain('name="case 2: &lt;&amp;&quot;\ufffd"');
  const json = await seinectl('test', testFile('json.yaml', 'allow'), '-o', 'json');
  expect(JSON.parse(json.out)).toMatchObject({ files: [{ coverage: 100, cases: [{ is: 'as expected' }, { is: 'as expected' }] }] });
});

it('shows what policies allow', async () => {
  const { code, out } = await seinectl('reach', '-f', workloads, '-f', join(folder, 'policies'), '--to', 'shop/db');
  expect(code).toBe(0);
  expect(out.split('\n').map((line) => line.replace(/ {2,}/g, ' | '))).toEqual([
    'FROM | TO | PORTS | VERDICT | BY',
    'outside (IPv4), outside (IPv6) | shop/db | all | deny | shop/db',
    'shop/api | shop/db | TCP 5432 | allow | shop/db spec.ingress[0]',
    'shop/api | shop/db | all others | deny | shop/db',
  ]);
  const csv = await seinectl('reach', '-f', workloads, '-f', join(folder, 'policies'), '--to', 'shop/db', '--port', '5432', '-o', 'csv');
  expect(csv.out).toContain('shop/api,shop/db,,TCP 5432,allow,shop/db spec.ingress[0]');
});

it('shows what a change opens and closes: exit 1 if anything', async () => {
  const files = ['-f', workloads, '-f', join(folder, 'policies')];
  const closed = await seinectl('diff', ...files, '--apply', denied);
  expect(closed.code).toBe(1);
  expect(closed.out).toMatch(/^- {2}shop\/db .*allow +deny: shop\/deny$/m);
  const opened = await seinectl('diff', ...files, '--delete', 'networkpolicy/shop/db', '-o', 'json');
  expect(new Set(JSON.parse(opened.out).changes.map(({ change }: { change: string }) => change))).toEqual(
    new Set(['opened', 'other rule']),
  );
  expect(await seinectl('diff', ...files, '--apply', join(folder, 'policies'))).toMatchObject({ code: 0, out: '' });
});

it('finds mistakes: exit 1, and 0 if only errors count', async () => {
  const egress = write(
    'egress.yaml',
    `apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: out, namespace: shop}
spec: {podSelector: {matchLabels: {app: api}}, policyTypes: [Egress], egress: [{to: [{podSelector: {matchLabels: {app: db}}}]}]}
`,
  );
  const found = await seinectl('lint', '-f', workloads, '-f', egress);
  expect([found.code, found.out.split('\n')[0]]).toEqual([
    1,
    'warning P04  shop/out spec.egress: egress is isolated, and DNS is not allowed',
  ]);
  expect(found.remarks).toBe('1 policy: 0 errors, 1 warning');
  const { code, out } = await seinectl('lint', '-f', workloads, '-f', egress, '--fail-on', 'error', '-o', 'sarif');
  expect([code, JSON.parse(out).runs[0].results[0].ruleId]).toEqual([0, 'P04']);
});

it('lint: SARIF has file, line and column of the field of each finding', async () => {
  write(
    'lists/two policies.yaml',
    `# A list, as kubectl prints it.
apiVersion: v1
kind: List
items:
- apiVersion: networking.k8s.io/v1
  kind: NetworkPolicy
  metadata: {name: fine, namespace: shop}
  spec: {podSelector: {matchLabels: {app: db}}, policyTypes: [Ingress]}
- apiVersion: networking.k8s.io/v1
  kind: NetworkPolicy
  metadata: {name: both, namespace: shop}
  spec:
    podSelector: {matchLabels: {app: db}}
    ingress:
    - from:
      - podSelector: {matchLabels: {app: nothing}}
`,
  );
  write(
    'lists/tenants.yaml',
    `apiVersion: policy.networking.k8s.io/v1beta1
kind: ClusterNetworkPolicy
metadata: {name: tenants}
spec:
  tier: Admin
  priority: 1
  subject: {namespaces: {matchLabels: {tenant: none}}}
  ingress:
  - {name: deny, action: Deny, from: [{namespaces: {}}]}
`,
  );
  const { out } = await seinectl('lint', '-f', workloads, '-f', join(folder, 'lists'), '--fail-on', 'error', '-o', 'sarif');
  const found = (JSON.parse(out).runs[0].results as SarifResult[]).map(({ ruleId, locations: [location] }) => {
    const { artifactLocation, region } = location?.physicalLocation ?? {};
    return `${ruleId} ${artifactLocation?.uri.split('/').at(-1)}:${region?.startLine}:${region?.startColumn}`;
  });
  expect(found).toEqual(['P03 two%20policies.yaml:16:9', 'P03 tenants.yaml:7:12']);
});

it.each([
  ['a file that does not exist', ['test', join(folder, 'none.yaml')], 'none.yaml: no such file or directory'],
  ['text that is not YAML', ['reach', '-f', write('broken.txt', 'a: [')], 'broken.txt: '],
  ['a test file of another version', ['test', write('old.txt', 'tests: v0\ncases: [{}]')], 'old.txt: tests'],
  ['a case with a wrong field', ['test', write('case.txt', 'tests: seine.dev/v1\ncases: [{from: x}]')], 'case.txt cases[0]: from'],
  ['a policy to delete that does not exist', ['diff', '-f', workloads, '--delete', 'networkpolicy/a/b'], 'there is no "networkpolicy/a/b"'],
  ['a workload in a change', ['diff', '-f', workloads, '--apply', workloads], 'only policies and namespaces'],
  ['a port name', ['reach', '-f', workloads, '--port', 'http'], 'a number is required'],
  ['a selection of nothing', ['reach', '-f', workloads, '--from', 'a/b'], 'selects nothing'],
])('refuses %s: exit 2', async (_, args, message) => {
  const { code, remarks } = await seinectl(...args);
  expect([code, remarks]).toEqual([2, expect.stringContaining(message)]);
});
