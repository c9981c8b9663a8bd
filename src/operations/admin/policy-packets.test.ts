import { expect, it, vi } from 'vitest';
import { SeineError } from '../../base/errors/seine-error.ts';
import { cookieOf, ownerOf } from '../../dataplane/pipeline/cookie.ts';
import { reg } from '../../dataplane/pipeline/fields.ts';
import { tables } from '../../dataplane/pipeline/tables.ts';
import { toOpenFlowMatch } from '../../dataplane/targets/bridge/encoding/to-openflow.ts';
import { encodeMatch } from '../../openflow/match/match.ts';
import { PolicyPackets, type PolicyPacketsPort } from './policy-packets.ts';

type Decided = ReturnType<ReturnType<PolicyPacketsPort['running']>['policy']['decided']> extends Generator<infer D> ? D : never;

const denyMatch = Buffer.from(encodeMatch(toOpenFlowMatch({ regs: [reg.verdict('deny')] })));
const never = new AbortController().signal;

/** Switch whose verdict flows and rows of rules have these counters, and a clock. */
function setUp({ ruleMetrics = false } = {}) {
  const counted = { verdicts: { allow: 7n, deny: 3n }, rules: new Map<string, bigint>() };
  const aggregate = vi.fn(({ table = 0, match }: { table?: number; match?: Uint8Array }) => {
    const { allow, deny } = counted.verdicts;
    const packets = match && denyMatch.equals(match) ? deny : allow;
    return Promise.resolve({ flows: 1, packets: table === tables.ingressVerdict.id ? packets : 0n, bytes: 0n });
  });
  const decided = function* (): Generator<Decided> {
    for (const name of counted.rules.keys())
      yield {
        owner: ownerOf('policy', name),
        direction: 'ingress',
        decision: { ranges: [], otherwise: { verdict: 'allow', by: [name] } },
      };
  };
  const dumpFlows = vi.fn(({ table }: { table?: number }, visit: (entry: never) => void) => {
    if (table === tables.ingressNetworkPolicy.id)
      for (const [name, packets] of counted.rules)
        visit({ cookie: cookieOf(ownerOf('policy', name)), match: new Uint8Array(), packets, bytes: 0n } as never);
    return Promise.resolve();
  });
  const port: PolicyPacketsPort = {
    config: { policy: { ruleMetrics } },
    openflow: { aggregate, dumpFlows },
    running: () => ({ policy: { decided } }),
  };
  let nowMs = 0;
  const packets = new PolicyPackets(port, never, () => nowMs);
  const later = async (signal = never) => {
    nowMs += 15_000;
    return await packets.read(signal);
  };
  return { packets, counted, aggregate, dumpFlows, later };
}

it('counts packets by direction and verdict, and by rule only if enabled', async () => {
  const { packets, dumpFlows } = setUp();
  expect(await packets.read(never)).toEqual({
    verdicts: [
      [{ direction: 'ingress', verdict: 'allow' }, 7],
      [{ direction: 'ingress', verdict: 'deny' }, 3],
      [{ direction: 'egress', verdict: 'allow' }, 0],
      [{ direction: 'egress', verdict: 'deny' }, 0],
    ],
    rules: [],
    rulesLeftOut: 0,
    drops: [],
  });
  expect(dumpFlows.mock.calls.map(([{ table }]) => table)).not.toContain(tables.ingressNetworkPolicy.id);
});

it('reads OVS once for many scrapes, and again after fifteen seconds', async () => {
  const { packets, counted, aggregate, later } = setUp();
  await Promise.all([packets.read(never), packets.read(never)]);
  counted.verdicts.allow = 9n;
  const { verdicts } = await packets.read(never);
  expect([verdicts[0]?.[1], aggregate.mock.calls.length]).toEqual([7, 4]);
  expect((await later()).verdicts[0]?.[1]).toBe(9);
});

it('never delays a scrape: it returns the last values, and a late answer counts for the next one', async () => {
  const { packets, counted, aggregate, later } = setUp();
  await packets.read(never);
  counted.verdicts = { allow: 20n, deny: 3n };
  const late = Promise.withResolvers<void>();
  const answer = aggregate.getMockImplementation();
  aggregate.mockImplementation(async (filter) => {
    await late.promise;
    return (await answer?.(filter)) ?? { flows: 0, packets: 0n, bytes: 0n };
  });
  expect((await later(AbortSignal.abort())).verdicts[0]?.[1]).toBe(7);
  late.resolve();
  expect((await packets.read(never)).verdicts[0]?.[1]).toBe(20);
});

it('has no samples while OVS does not answer', async () => {
  const { packets, aggregate, later } = setUp();
  await packets.read(never);
  aggregate.mockRejectedValueOnce(new SeineError('UNAVAILABLE', 'gone'));
  expect(await later()).toEqual({ verdicts: [], rules: [], rulesLeftOut: 0, drops: [] });
  expect((await later()).verdicts).toHaveLength(4);
});

it('counts rules by name, and does not restart when flows are rewritten', async () => {
  const { packets, counted, later } = setUp({ ruleMetrics: true });
  counted.rules.set('shop/db spec.ingress[0]', 10n);
  const labels = { direction: 'ingress', verdict: 'allow', by: 'shop/db spec.ingress[0]' };
  expect((await packets.read(never)).rules).toEqual([[labels, 10]]);
  counted.rules.set('shop/db spec.ingress[0]', 4n);
  expect((await later()).rules).toEqual([[labels, 10]]);
  counted.rules.set('shop/db spec.ingress[0]', 6n);
  expect((await later()).rules).toEqual([[labels, 12]]);
});

it('has a thousand rules at most: those exported before, then the busiest; and reports the number of omitted ones', async () => {
  const { packets, counted, later } = setUp({ ruleMetrics: true });
  for (let n = 0; n < 1_003; n++) counted.rules.set(`shop/p spec.ingress[${n}]`, BigInt(n));
  const first = await packets.read(never);
  expect([first.rules.length, first.rulesLeftOut]).toEqual([1_000, 3]);
  const names = ({ rules }: typeof first) => new Set(rules.map(([{ by }]) => by));
  expect(['shop/p spec.ingress[2]', 'shop/p spec.ingress[3]'].map((name) => names(first).has(name))).toEqual([false, true]);
  counted.rules.set('shop/p spec.ingress[0]', 5_000n);
  expect(names(await later())).toEqual(names(first));
  counted.rules.delete('shop/p spec.ingress[700]');
  const second = await later();
  expect([names(second).has('shop/p spec.ingress[0]'), second.rules.length, second.rulesLeftOut]).toEqual([true, 1_000, 2]);
});
