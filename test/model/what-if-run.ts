import fc from 'fast-check';
import { parseIp } from '../../src/base/net/ip.ts';
import type { ReachChange } from '../../src/policy/reach/difference.ts';
import { isPoliced, keyOf } from '../../src/policy/reach/objects.ts';
import { withOwnedAddresses } from '../../src/policy/reach/owned-addresses.ts';
import { addressesOf, partyKey, type ReachParty } from '../../src/policy/reach/party.ts';
import type { ForwardedObjects, ServedObject } from '../../src/policy/verify/forwarding-reference/forwarded-objects.ts';
import { meaningOf } from '../../src/policy/verify/forwarding-reference/forwarding-reference.ts';
import { judge } from '../../src/policy/verify/reference/reference-verdict.ts';
import { firstSlices } from '../../src/simulate/objects/controlled-slices.ts';
import { type Proposal, proposedCluster } from '../../src/simulate/what-if/proposal.ts';
import type { ServedChange } from '../../src/simulate/what-if/service-cells.ts';
import { type WhatIf, whatIf } from '../../src/simulate/what-if/what-if.ts';
import { nameOf, objectsOf, type PolicyObject } from './policy-proof.ts';
import { podLabels, tieredHistories } from './random-policies.ts';

/** A cluster, and a change of it. */
export interface ProposedCase {
  readonly before: ForwardedObjects;
  readonly proposal: Proposal;
}

const pick = <T>(...from: readonly T[]): fc.Arbitrary<T> => fc.constantFrom(...from);

const service = fc.record({
  namespace: pick('red', 'green', 'blue'),
  name: pick('s1', 's2'),
  selector: fc.dictionary(pick('app', 'tier'), pick('a', 'b', 'c'), { minKeys: 1, maxKeys: 1 }),
  port: pick(80, 443),
  targetPort: pick<number | string>(80, 8080, 'http'),
  policy: pick('Cluster', 'Cluster', 'Local'),
});

type ServiceParts = typeof service extends fc.Arbitrary<infer Parts> ? Parts : never;

function serviceObject({ namespace, name, selector, port, targetPort, policy }: ServiceParts): ServedObject {
  const number = 16 * ['red', 'green', 'blue'].indexOf(namespace) + Number(name.slice(1));
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { namespace, name },
    spec: {
      clusterIP: `10.96.0.${number}`,
      clusterIPs: [`10.96.0.${number}`, `fd00:96::${number}`],
      ipFamilies: ['IPv4', 'IPv6'],
      selector,
      internalTrafficPolicy: policy,
      ports: [{ protocol: 'TCP', port, targetPort }],
    },
  } as unknown as ServedObject;
}

/** Clusters with policies of all tiers and Services, and changes of policies, labels and Services. */
export const proposedCases: fc.Arbitrary<ProposedCase> = fc
  .record({
    history: tieredHistories,
    services: fc.uniqueArray(service, { maxLength: 4, selector: ({ namespace, name }) => `${namespace}/${name}` }),
    relabelled: fc.array(fc.tuple(fc.nat(), podLabels), { maxLength: 2 }),
    written: fc.array(service, { maxLength: 2 }),
    removed: fc.array(fc.nat(), { maxLength: 2 }),
    steps: fc.nat({ max: 3 }),
  })
  .map(({ history, services, relabelled, written, removed, steps }) => {
    const set = new Map(history.objects.map((each) => [nameOf(each), each]));
    const policed = objectsOf(set);
    const bare: ForwardedObjects = { ...policed, services: services.map(serviceObject), slices: [] };
    const before = { ...bare, slices: firstSlices(bare) };
    const documents = [
      ...history.changes
        .flat()
        .slice(0, steps)
        .flatMap((step) => ('put' in step ? documentOf(step.put) : [])),
      ...relabelled.flatMap(([at, labels]) => relabel(before, at, labels)),
      ...written.map(serviceObject),
    ];
    const known = [
      ...before.networkPolicies.map((each) => `networkpolicy/${keyOf(each)}`),
      ...(before.clusterNetworkPolicies ?? []).map(({ metadata }) => `clusternetworkpolicy/${metadata.name}`),
      ...before.services.map((each) => `service/${keyOf(each)}`),
    ];
    const gone = new Set(known.length === 0 ? [] : removed.map((at) => known[at % known.length] ?? ''));
    return { before, proposal: { documents: documents.map((object) => ({ place: 'proposal', object })), removed: [...gone] } };
  });

function documentOf({ kind, object }: PolicyObject): readonly unknown[] {
  if (kind === 'NetworkPolicy') return [{ apiVersion: 'networking.k8s.io/v1', kind, ...object }];
  if (kind === 'ClusterNetworkPolicy') return [{ apiVersion: 'policy.networking.k8s.io/v1beta1', kind, ...object }];
  return kind === 'Namespace' ? [{ apiVersion: 'v1', kind, ...object }] : [];
}

function relabel({ pods }: ForwardedObjects, at: number, labels: Readonly<Record<string, string>>): readonly unknown[] {
  const pod = pods[at % Math.max(1, pods.length)];
  if (!pod) return [];
  const removed = Object.fromEntries(Object.keys(pod.metadata.labels ?? {}).map((key) => [key, null]));
  const { namespace, name } = pod.metadata;
  return [{ apiVersion: 'v1', kind: 'Pod', metadata: { namespace, name, labels: { ...removed, ...labels } } }];
}

const outside = ['198.51.100.7', '10.99.1.1', '10.0.0.0', '192.168.0.7', '2001:db8::9', '2001:db8::7', 'fd00:99::1'];
const ports = [1, 53, 80, 81, 443, 8080, 65_535] as const;

/** Compares a prediction with the reference: all pairs and some ports. @returns differences, at most ten, and the number of changed cells */
export function compareWithReference(
  { before, proposal }: ProposedCase,
  predict = whatIf,
): { readonly wrong: string[]; readonly changed: number } {
  const predicted = predict(before, proposal);
  const after = proposedCluster(before, proposal).objects;
  const wrong: string[] = [...predicted.serviceDisagreements];
  if (predicted.disagreements.length > 0) wrong.push(`${predicted.disagreements.length} not confirmed`);
  const result = { wrong, changed: 0 };
  const unitOf = new Map(predicted.units.flatMap(({ name, parties }) => parties.map((party) => [partyKey(party), name] as const)));
  const parties = partiesOf(withOwnedAddresses(after));
  const rows = Map.groupBy(predicted.connections, ({ from, to }) => `${from} ${to}`);
  for (const from of parties)
    for (const to of parties) {
      if (!isCompared(from, to)) continue;
      for (const [family, source] of addressesOf(from)) {
        const destination = addressesOf(to).get(family);
        if (destination === undefined) continue;
        const own = rows.get(`${unitOf.get(partyKey(from))} ${unitOf.get(partyKey(to))}`) ?? [];
        for (const [protocol, port] of probes(source)) {
          const verdictIn = (objects: ForwardedObjects) =>
            judge(objects, { from: source, to: destination, protocol, ...(port === undefined ? {} : { port }) }).verdict;
          const [then, now] = [verdictIn(before), verdictIn(after)];
          const expected = then === now ? 'none' : now === 'allow' ? 'opened' : 'closed';
          // An address that no policy distinguishes is not named, because nothing about it changes.
          const found =
            own.filter((row) => row.change !== 'other rule').find((row) => covers(row, family, protocol, port))?.change ?? 'none';
          if (expected !== 'none') result.changed++;
          const isKnown = unitOf.has(partyKey(from)) && unitOf.has(partyKey(to));
          if (found !== expected && isKnown && wrong.length < 10)
            wrong.push(`${partyKey(from)} -> ${partyKey(to)} ${family} ${protocol} ${port}: expected ${expected}, found ${found}`);
        }
      }
    }
  compareServices({ before, after, predicted, parties, unitOf }, result);
  return result;
}

function partiesOf(objects: ForwardedObjects): readonly ReachParty[] {
  return [
    ...objects.pods.filter(isPoliced).map((pod): ReachParty => ({ is: 'pod', pod })),
    ...objects.nodes.map((node): ReachParty => ({ is: 'node', node })),
    ...outside.map((address): ReachParty => ({ is: 'outside', address })),
  ];
}

/** A node always reaches its own pods; a unit of several nodes stands for the others. */
function isCompared(from: ReachParty, to: ReachParty): boolean {
  if (from.is !== 'pod' && to.is !== 'pod') return false;
  if (from.is === 'node' && to.is === 'pod') return from.node.metadata.name !== to.pod.spec.nodeName;
  return partyKey(from) !== partyKey(to);
}

/** A few ports for each pair, which differ by the address. */
function* probes(source: string): Iterable<readonly [string, number | undefined]> {
  const start = Number(parseIp(source).value % BigInt(ports.length));
  for (const at of [0, 2, 3]) yield ['TCP', ports[(start + at) % ports.length]];
  yield ['UDP', ports[(start + 1) % ports.length]];
  yield ['GRE', undefined];
}

function covers(row: ReachChange, family: string, protocol: string, port: number | undefined): boolean {
  if (row.family !== undefined && row.family !== family) return false;
  return row.ranges.some((range) =>
    port === undefined ? range.protocol === 'other' : range.protocol === protocol && port >= range.first && port <= range.last,
  );
}

interface ServiceScene {
  readonly before: ForwardedObjects;
  readonly after: ForwardedObjects;
  readonly predicted: WhatIf;
  readonly parties: readonly ReachParty[];
  readonly unitOf: ReadonlyMap<string, string>;
}

/** Compares for each pod and port of a Service the share of its endpoints that it reaches, if the Service or its slices change. */
function compareServices({ before, after, predicted, parties, unitOf }: ServiceScene, result: { wrong: string[]; changed: number }): void {
  const shown = (change: ServedChange['change']) => (change === 'other endpoints' ? 'none' : change);
  for (const key of new Set([...before.services, ...after.services].map(keyOf))) {
    const [then, now] = [before, after].map((objects) => textOfService(objects, key));
    if (then === now) continue;
    for (const port of [80, 443])
      for (const client of parties.filter(({ is }) => is === 'pod'))
        for (const [family, source] of addressesOf(client)) {
          const [first, second] = [before, after].map((objects) => shareOf(objects, key, { source, family, port, client }));
          if (first === undefined || second === undefined || first === second) continue;
          result.changed++;
          const unit = unitOf.get(partyKey(client)) ?? '';
          const rows = predicted.services.filter(
            (row) =>
              row.to === `service ${key}` &&
              (row.from === unit || row.from.startsWith(`${unit} on `)) &&
              row.ports === `${port}/TCP` &&
              (row.family ?? family) === family,
          );
          const expected = second > first ? 'opened' : 'closed';
          if (!rows.some(({ change }) => shown(change) === expected) && result.wrong.length < 10)
            result.wrong.push(
              `${partyKey(client)} -> service ${key} ${port} ${family}: expected ${expected}, found ${JSON.stringify(rows)}`,
            );
        }
  }
}

function textOfService({ services, slices }: ForwardedObjects, key: string): string {
  const own = slices.filter(({ metadata }) => `${metadata.namespace}/${metadata.labels?.['kubernetes.io/service-name']}` === key);
  return JSON.stringify([services.find((each) => keyOf(each) === key)?.spec, own.map(({ endpoints, ports: all }) => [endpoints, all])]);
}

interface AskedService {
  readonly source: string;
  readonly family: 'ipv4' | 'ipv6';
  readonly port: number;
  readonly client: ReachParty;
}

/** Share of endpoints that the reference allows; undefined if the client is an endpoint itself. */
function shareOf(objects: ForwardedObjects, key: string, { source, family, port, client }: AskedService): number | undefined {
  const service = objects.services.find((each) => keyOf(each) === key);
  const address = service?.spec.clusterIPs?.find((each) => parseIp(each).family === family);
  if (!service || address === undefined) return 0;
  const node = client.is === 'pod' ? (client.pod.spec.nodeName ?? '') : '';
  const packet = { source, destination: address, protocol: 'TCP', port, node };
  const candidates = objects.slices
    .filter(({ metadata }) => `${metadata.namespace}/${metadata.labels?.['kubernetes.io/service-name']}` === key)
    .flatMap(({ endpoints, ports: all }) =>
      (endpoints ?? []).flatMap((each) => (all ?? []).map((one) => ({ address: each.addresses[0] ?? '', port: one.port ?? 0 }))),
    )
    .filter((each) => parseIp(each.address).family === family);
  if (candidates.some((each) => each.address === source)) return undefined;
  const judged = candidates
    .map((endpoint) => meaningOf(objects, packet, endpoint))
    .filter(({ why }) => !/is no endpoint of|has no /.test(why));
  return judged.length === 0 ? 0 : judged.filter(({ verdict }) => verdict === 'allowed').length / judged.length;
}
