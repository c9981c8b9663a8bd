import { expect, it } from 'vitest';
import { suiteResults } from '../../build/kubernetes/policy-api-run.mjs';
import { helperWithoutSctp, limitsLengthened, manifestWithoutSctp } from '../../build/kubernetes/policy-api-variants.mjs';

const container = (name: string, env: string): string =>
  `        - name: ${name}\n          image: agnhost\n${env === '' ? '' : `          env:\n          - name: ${env}\n            value: "foo"\n`}`;
const set = (name: string, ...containers: readonly string[]): string =>
  `---\nkind: StatefulSet\nmetadata:\n  name: ${name}\nspec:\n  template:\n    spec:\n      containers:\n${containers.join('')}`;

it('leaves out containers that open SCTP sockets, and nothing else', () => {
  const [client, web] = [container('client', ''), container('web', 'HOST_IP')];
  const text =
    set('one', client, container('one-9003', 'SERVE_SCTP_PORT_9003'), web) +
    set('two', container('{{ 6 }}', 'SERVE_SCTP_PORT_{{ 6 }}'), web);
  expect(manifestWithoutSctp(text)).toBe(set('one', client, web) + set('two', web));
  expect(() => manifestWithoutSctp(set('one', client))).toThrow('no container opens SCTP sockets');
});

it('returns from attempts by SCTP at once', () => {
  const before = 'import "x"\n\nfunc PokeServer(t *testing.T, protocol, host string) {\n\tpoke()\n}\n';
  expect(helperWithoutSctp(before)).toBe(
    before.replace('{\n\tpoke', '{\n\tif protocol == "sctp" {\n\t\tt.Log("left out: an attempt by SCTP")\n\t\treturn\n\t}\n\tpoke'),
  );
  expect(() => helperWithoutSctp('func poke() {}')).toThrow('no function PokeServer');
});

it('lengthens time limits, and not the interval of attempts', () => {
  const limits = (request: number, poke: number): string =>
    `return TimeoutConfig{\n\tRequestTimeout: ${request} * time.Second,\n\tPokeTimeout:  ${poke} * time.Second,\n\tPokeInterval: 500 * time.Millisecond,\n}`;
  expect(limitsLengthened(limits(3, 10))).toBe(limits(18, 60));
  expect(() => limitsLengthened('return TimeoutConfig{}')).toThrow('no time limit in seconds');
});

it('reads results of tests, with attempts that were left out in their parts', () => {
  const text = `=== RUN   TestConformance
=== RUN   TestConformance/Gress
=== RUN   TestConformance/Gress/one
    helper.go:71: left out: an attempt by SCTP
=== RUN   TestConformance/Gress/two
    helper.go:71: left out: an attempt by SCTP
=== NAME  TestConformance/Gress
    apply.go:9: Deleting
=== RUN   TestConformance/Egress
--- FAIL: TestConformance (9.00s)
    --- PASS: TestConformance/Gress (8.25s)
        --- PASS: TestConformance/Gress/one (4.00s)
        --- PASS: TestConformance/Gress/two (4.25s)
    --- FAIL: TestConformance/Egress (0.75s)
    --- SKIP: TestConformance/Other (0.00s)
FAIL
`;
  expect(suiteResults(text)).toEqual([
    { name: 'Gress', state: 'passed', seconds: 8.25, leftOut: 2 },
    { name: 'Egress', state: 'failed', seconds: 0.75, leftOut: 0 },
    { name: 'Other', state: 'skipped', seconds: 0, leftOut: 0 },
  ]);
});
