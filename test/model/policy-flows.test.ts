import fc from 'fast-check';
import { expect, it } from 'vitest';
import { hostCidr, parseCidr, parseIp } from '../../src/base/net/ip.ts';
import { compileSubject } from '../../src/dataplane/compile/compile-entry.ts';
import { nothing } from '../../src/dataplane/desired/host-entries.ts';
import { ownerOf } from '../../src/dataplane/pipeline/cookie.ts';
import { formatFlow } from '../../src/dataplane/pipeline/format.ts';
import { type BridgeValue, encodeBridgeEntries } from '../../src/dataplane/targets/bridge/bridge-entry.ts';
import { recoveredFlows } from '../../src/dataplane/targets/bridge/recovered-flows.ts';
import { RowPacking } from '../../src/dataplane/targets/bridge/row-packing.ts';
import { PolicyEngine } from '../../src/policy/engine/policy-engine.ts';
import { addressRows } from '../../src/policy/flows/address-rows.ts';
import { ContentNames } from '../../src/policy/flows/content.ts';
import { recoveredNumbers } from '../../src/policy/flows/recovered-numbers.ts';
import { addressFlow, directionTables, identityOf, policyTables, relationFlow } from '../../src/policy/flows/rows.ts';
import { policyDirections } from '../../src/policy/matrix/matrix.ts';
import { batches, timeoutOf } from '../support/batches.ts';
import { modelRuns } from '../support/model-runs.ts';
import { WrittenPolicy } from './policy-flow-run.ts';
import { type PolicyObject, prove, provenNode, put } from './policy-proof.ts';
import { statesOf } from './policy-run.ts';
import { PolicySwitch } from './policy-switch.ts';
import { type PolicyHistory, policyHistories, probedAddresses, probedPorts, tieredHistories } from './random-policies.ts';

const seed = Number(process.env['SEINE_TEST_SEED'] ?? Date.now() % 1_000_000);
const runs = Number(process.env['SEINE_TEST_POLICY_SETS'] ?? modelRuns(100));
const kinds = [
  ['NetworkPolicies', policyHistories],
  ['policies of all tiers', tieredHistories],
] as const;

/** Executes a history. @param each called after every change @returns the final state */
function live(history: PolicyHistory, engine: PolicyEngine, each: () => void): ReadonlyMap<string, PolicyObject> {
  let set: ReadonlyMap<string, PolicyObject> = new Map();
  for (set of statesOf(history, engine)) each();
  return set;
}

it.each(kinds)(
  `an agent that starts desires the present flows of the bridge, with %s (SEINE_TEST_SEED=${seed})`,
  { timeout: timeoutOf(runs) },
  async (name, histories) => {
    for await (const batch of batches(`a start with ${name}`, { seed, runs }))
      fc.assert(
        fc.property(histories, (history) => {
          const engine = new PolicyEngine(provenNode);
          const before = new WrittenPolicy(engine);
          const set = live(history, engine, () => void before.update());
          const rebuilt = new PolicyEngine(provenNode);
          for (const each of [...set.values()].toReversed()) put(rebuilt, each);
          const after = new WrittenPolicy(rebuilt, before.entries());
          after.update();
          expect(lines(after)).toEqual(lines(before));
          expect(sorted(after.entries())).toEqual(sorted(before.entries()));
          for (const pod of engine.matrix.subjects.keys()) expect(after.flows.classesOf(pod)).toEqual(before.flows.classesOf(pod));
        }),
        { seed: batch.seed, numRuns: batch.runs, endOnFailure: true },
      );
  },
);

it('a number that the bridge only loads is not allocated to another content', () => {
  const { egress, ingress } = directionTables;
  const flows = [
    addressFlow(egress, parseCidr('10.1.0.5/32'), identityOf(egress, { coarse: 3, fine: 7 })),
    relationFlow(ingress, 9, {}, { decision: 12 }),
    ...compileSubject({ ofPort: 32784, addresses: [], ingress: 4, egress: 5 }),
  ];
  const held = encodeBridgeEntries(ownerOf('policy'), { ...nothing, flows });
  const names = new ContentNames('egress');
  const seen = (tables: typeof egress) =>
    Object.values(recoveredNumbers(tables, recoveredFlows(held, policyTables), names)).map((kind) => [...kind.seen]);
  // Classes of NetworkPolicies, of the Admin and of the Baseline tier, coarse, fine, decisions. A pod's class of either direction is loaded in both entry tables, for answers.
  expect(seen(egress)).toEqual([[5, 4], [], [], [3], [7], []]);
  expect(seen(ingress)).toEqual([[9, 4, 5], [], [], [], [], [12]]);
  expect(recoveredNumbers(egress, recoveredFlows(held, policyTables), names).coarse.byCookie.size).toBe(0);
});

it('rows of addresses are packed as they are encoded one by one', () => {
  for (const direction of policyDirections) {
    const packing = new RowPacking(addressRows[direction]);
    const numbers = [0, 1, 3 * 2 ** 20 + 7, 2 ** 31, 2 ** 32 - 1];
    for (const text of [
      '0.0.0.0',
      '10.1.0.5',
      '16.17.18.19',
      '255.255.255.255',
      '::',
      'fd00::1',
      '1011:1213:1415:1617:1819:1a1b:1c1d:1e1f',
    ])
      for (const number of numbers) {
        const [owner, ip] = [new ContentNames(direction).address(hostCidr(parseIp(text)).text), parseIp(text)];
        const [[key, value] = []] = encodeBridgeEntries(owner, { ...nothing, flows: [addressRows[direction].flowOf(ip, number)] });
        if (key === undefined || value === undefined) throw new Error('a row is an entry');
        const place = packing.placeOf(ip);
        expect([packing.ownerOf(place), packing.keyOf(place), packing.valueOf(place, number | 0)]).toEqual([owner, key, value]);
        expect([packing.placeOfOwner(owner), packing.placeOfKey(key), packing.numberIn(place, value)]).toEqual([place, place, number | 0]);
      }
  }
});

it('a flow that differs from the row of an address is not packed', () => {
  const [ingress, egress] = [new RowPacking(addressRows.ingress), new RowPacking(addressRows.egress)];
  const place = ingress.placeOf(parseIp('10.1.0.5'));
  const [key, value] = [ingress.keyOf(place), ingress.valueOf(place, 7)];
  const others = ['policy/ingress/address/10.1.0.5/31', 'policy/ingress/address/10.01.0.5/32', 'policy/egress/address/10.1.0.5/32', 'node'];
  for (const owner of [...others, 'policy/ingress/address/', 'policy/ingress/address/FD00::1/128'])
    expect(ingress.placeOfOwner(owner)).toBeUndefined();
  expect([egress.placeOfKey(key), ingress.placeOfKey(egress.keyOf(place))]).toEqual([undefined, undefined]);
  const network = encodeBridgeEntries(ownerOf('policy'), {
    ...nothing,
    flows: [addressFlow(directionTables.ingress, parseCidr('10.1.0.4/31'), { field: 'identity', reg: 8, value: 7, mask: 0xffff_ffff })],
  });
  for (const each of network.keys()) expect(ingress.placeOfKey(each)).toBeUndefined();
  // Another cookie, a timeout, a flag, a missing step, trailing bytes.
  for (const at of [0, 7, 9, 11, 13, 14]) {
    const bytes = Buffer.from(value, 'latin1');
    bytes[at] = (bytes[at] ?? 0) ^ 1;
    expect(ingress.numberIn(place, bytes.toString('latin1') as BridgeValue)).toBeUndefined();
  }
  expect(ingress.numberIn(place, `${value}${'\0'.repeat(8)}` as BridgeValue)).toBeUndefined();
  expect(ingress.numberIn(ingress.placeOf(parseIp('10.1.0.6')), value)).toBeUndefined();
});

it.each(kinds)(
  `the meaning of a relation or a decision never changes, with %s (SEINE_TEST_SEED=${seed})`,
  { timeout: timeoutOf(runs) },
  async (name, histories) => {
    for await (const batch of batches(`rows of ${name}`, { seed, runs }))
      fc.assert(
        fc.property(histories, (history) => {
          const engine = new PolicyEngine(provenNode);
          const written = new WrittenPolicy(engine);
          const found = new Map<string, string>();
          live(history, engine, () => {
            written.update();
            for (const [key, value] of written.entries()) {
              if ([38, 82].includes(key.charCodeAt(1))) continue;
              expect(found.get(key) ?? value).toBe(value);
              found.set(key, value);
            }
          });
          expect(written.flows.problems).toEqual([]);
        }),
        { seed: batch.seed, numRuns: batch.runs, endOnFailure: true },
      );
  },
);

it.each(kinds)(
  `reference, matrix and the flows on a switch agree, with %s (SEINE_TEST_SEED=${seed})`,
  { timeout: timeoutOf(runs) },
  async (name, histories) => {
    const total = { allowed: 0, denied: 0 };
    const peers = new Map<string, number>();
    for await (const batch of batches(`flows on a switch of ${name}`, { seed, runs }))
      fc.assert(
        fc.property(histories, (history) => {
          const engine = new PolicyEngine(provenNode);
          const written = new WrittenPolicy(engine);
          const set = live(history, engine, () => void written.update());
          const bridge = new PolicySwitch(engine.matrix, written);
          const { verdict } = bridge;
          const isRefused = bridge.refusals();
          const proof = prove(set, engine.matrix, probedAddresses, probedPorts, { verdict, isRefused, every: 11 });
          expect(proof.differences.slice(0, 3)).toEqual([]);
          total.allowed += proof.allowed;
          total.denied += proof.denied;
          for (const [peer, count] of Object.entries(proof.peers)) peers.set(peer, (peers.get(peer) ?? 0) + count);
        }),
        { seed: batch.seed, numRuns: batch.runs, endOnFailure: true },
      );
    const probes = total.allowed + total.denied;
    process.stdout.write(
      `${probes} probes, ${((100 * total.allowed) / probes).toFixed(1)} % allowed, by peer ${JSON.stringify(Object.fromEntries(peers))}\n`,
    );
    expect(total.allowed / probes).toBeGreaterThan(runs >= 100 ? 0.3 : 0.1);
    expect(total.denied / probes).toBeGreaterThan(runs >= 100 ? 0.3 : 0.1);
  },
);

/** Lines of text for messages. */
function lines({ byOwner }: WrittenPolicy): readonly string[] {
  return [...byOwner].flatMap(([owner, flows]) => flows.map((flow) => `${owner} ${formatFlow(flow)}`)).toSorted();
}

function sorted(entries: ReadonlyMap<string, string>): readonly (readonly [string, string])[] {
  return [...entries].sort(([a], [b]) => (a < b ? -1 : 1));
}
