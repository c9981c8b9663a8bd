import { expect, it } from 'vitest';
import { exampleCluster, policyObject } from '../../../test/support/policy-cluster.ts';
import { CaseRunner, caseSchema } from './cases.ts';
import type { ReachObjects } from './objects.ts';
import { partyName } from './party.ts';
import { Reach } from './reach.ts';

const service = {
  metadata: { namespace: 'shop', name: 'db' },
  spec: { selector: { app: 'db' }, ports: [{ name: 'sql', port: 15_432, targetPort: 'sql' }] },
};
const objects: ReachObjects = {
  ...exampleCluster,
  networkPolicies: [
    policyObject('shop/db', {
      podSelector: { matchLabels: { app: 'db' } },
      ingress: [
        { from: [{ podSelector: { matchLabels: { app: 'api' } } }], ports: [{ port: 'sql' }] },
        { from: [{ ipBlock: { cidr: '203.0.113.0/24', except: ['203.0.113.128/25'] } }] },
      ],
    }),
  ],
  services: [service],
};
const run = (written: object, all = objects) => new CaseRunner(new Reach(all)).run(caseSchema.parse(written));

it.each([
  [{ from: 'shop/api', to: 'service:shop/db', port: 15_432, expect: 'allow', by: 'shop/db' }],
  [{ from: 'shop/api', to: 'service:shop/db', expect: 'allow', by: 'shop/db spec.ingress[0]' }],
  [{ from: 'shop/api', to: 'shop/db', port: 'sql/TCP', expect: 'allow' }],
  [{ from: 'shop/api', to: 'shop/db', port: '5431-5433/TCP', expect: 'some' }],
  [{ from: 'shop/api', to: 'shop/db', port: 'ICMP', expect: 'deny', by: 'shop/db' }],
  [{ from: { namespace: { env: 'prod' }, podNot: { app: 'api' } }, to: 'shop/d*', port: '5432', expect: 'deny' }],
  [{ from: { namespaceNot: 'shop' }, to: { pod: { app: 'db' } }, expect: 'deny' }],
  [{ from: 'outside:203.0.113.0/25', to: 'shop/db', expect: 'allow' }],
  [{ from: 'outside:203.0.113.0/24', to: 'shop/db', expect: 'some' }],
  [{ from: 'outside', to: 'shop/db', expect: 'deny' }],
  [{ from: 'node:n1', to: 'shop/db', expect: 'allow' }],
  [{ from: 'node:n2', to: 'shop/db', expect: 'deny' }],
  [{ from: 'shop/db', to: 'outside:192.0.2.1', expect: 'allow' }],
])('evaluates %o', (written) => {
  expect(run(written)).toMatchObject({ is: 'as expected', disagreements: [] });
});

it('reports the pairs that are not as expected, and rules that decide instead of the expected one', () => {
  const wrong = run({ from: { namespace: 'shop' }, to: 'shop/db', port: 5432, expect: 'allow' });
  expect(wrong).toMatchObject({ is: 'different', found: 'some' });
  expect([...new Set(wrong.examples.map(({ from }) => partyName(from)))]).toEqual(['shop/web']);
  const other = run({ from: 'shop/api', to: 'shop/db', port: 5432, expect: 'allow', by: 'shop/db spec.ingress[1]' });
  expect(other).toMatchObject({ is: 'decided by another rule', decidedBy: ['shop/db spec.ingress[0]'] });
});

it('reports a selection of nothing, which must not pass as denied', () => {
  expect(run({ from: 'shop/nothing', to: 'shop/db', expect: 'deny' })).toMatchObject({
    is: 'nothing selected',
    missing: 'from selects nothing',
  });
  expect(run({ from: 'shop/api', to: 'shop/db', port: 'none', expect: 'deny' }).is).toBe('nothing selected');
});

it('does not judge connections of a pod to itself', () => {
  expect(run({ from: 'shop/db', to: 'shop/db', expect: 'deny' }).is).toBe('nothing selected');
});

it.each([
  [{ from: 'api', to: 'shop/db', expect: 'allow' }, 'is not one of NAMESPACE/POD'],
  [{ from: 'outside:x', to: 'shop/db', expect: 'allow' }, 'x'],
  [{ from: 'name:example.com', to: 'shop/db', expect: 'allow' }, 'domain names are not supported'],
  [{ from: 'shop/api', to: 'shop/db', port: '80/ICMP', expect: 'allow' }, 'not PORT, FIRST-LAST or NAME'],
  [{ from: 'shop/api', to: 'shop/db', port: '90-80', expect: 'allow' }, 'ends before it begins'],
  [{ from: 'shop/api', to: 'shop/db', port: 70_000, expect: 'allow' }, '65535'],
  [{ from: 'shop/api', to: 'shop/db', expect: 'yes' }, 'expect'],
])('refuses %o', (written, message) => {
  const parsed = caseSchema.safeParse(written);
  expect(parsed.success ? '' : `${parsed.error}`).toContain(message);
});

it('names the rules that decided, for coverage', () => {
  const runner = new CaseRunner(new Reach(objects));
  runner.run(caseSchema.parse({ from: 'shop/api', to: 'shop/db', port: 5432, expect: 'allow' }));
  expect([...runner.decided]).toEqual(['shop/db spec.ingress[0]']);
});
