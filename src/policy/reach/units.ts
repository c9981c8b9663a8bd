import { cidrContains, type Family, parseCidr, parseIp } from '../../base/net/ip.ts';
import { NarrowedObjects } from '../verify/proof/narrowed-objects.ts';
import { probedAddresses } from '../verify/proof/probes.ts';
import { whoHas } from '../verify/reference/parties.ts';
import type { ReachObjects } from './objects.ts';
import { keyOf } from './objects.ts';
import { addressesOf, type ReachParty } from './party.ts';
import type { Reach } from './reach.ts';
import { workloadName } from './workload-name.ts';

/** Parties of one workload, or external hosts, that policies do not distinguish. */
export interface Unit {
  /** `shop/api`, `node n1`, `outside 10.0.0.0/8`; unique among the units. */
  readonly name: string;
  /** At least one. Policies treat all of them alike, at either end of a connection. */
  readonly parties: readonly ReachParty[];
}

/**
 * Divides all parties of a cluster into units, sorted by name.
 *
 * @param policies policies whose networks distinguish external hosts; absent: those of the cluster
 */
export function unitsOf(reach: Reach, policies: NamingPolicies = reach.objects): readonly Unit[] {
  const { pods, nodes } = reach.objects;
  const podParties = pods
    .filter((pod) => reach.hasClass(pod) && (pod.status.podIPs ?? []).length > 0)
    .map((pod): ReachParty => ({ is: 'pod', pod }));
  const workloads = Map.groupBy(podParties, (party) => `${nameOfUnit(party)} ${reach.classText(party)}`);
  const nodeParties = nodes.map((node): ReachParty => ({ is: 'node', node }));
  const byClass = Map.groupBy(
    [...nodeParties, ...outsideParties(reach.objects, policies)],
    (party) => `${party.is} ${familiesOf(party)} ${reach.classText(party)}`,
  );
  const named = [
    ...[...workloads.values()].map((parties) => ({ name: nameOfUnit(parties[0]), parties })),
    ...[...byClass.values()].map((parties) => ({ name: nameOfGroup(parties, policies), parties })),
  ];
  return withUniqueNames(named).sort((a, b) => (a.name < b.name ? -1 : 1));
}

type NamingPolicies = Pick<ReachObjects, 'networkPolicies' | 'clusterNetworkPolicies'>;

function nameOfUnit(party: ReachParty | undefined): string {
  return party?.is === 'pod' ? `${party.pod.metadata.namespace}/${workloadName(party.pod)}` : '';
}

function nameOfGroup(parties: readonly ReachParty[], objects: NamingPolicies): string {
  const [first] = parties;
  if (first?.is === 'node')
    return parties.length === 1 ? `node ${first.node.metadata.name}` : `nodes ${first.node.metadata.name} and ${parties.length - 1} more`;
  return first?.is === 'outside' ? outsideName(first.address, objects) : '';
}

/** Returns the most specific network of a rule that contains the address. */
function outsideName(address: string, objects: NamingPolicies): string {
  const ip = parseIp(address);
  const containing = networksOf(objects)
    .map(parseCidr)
    .filter((cidr) => cidrContains(cidr, ip))
    .sort((a, b) => b.prefixLength - a.prefixLength);
  return containing[0] ? `outside ${containing[0].text}` : `outside (${ip.family === 'ipv4' ? 'IPv4' : 'IPv6'})`;
}

function networksOf({ networkPolicies, clusterNetworkPolicies = [] }: NamingPolicies): readonly string[] {
  const ofTiers = clusterNetworkPolicies
    .flatMap(({ spec }) => spec.egress ?? [])
    .flatMap(({ to }) => to ?? [])
    .flatMap(({ networks }) => networks ?? []);
  const ofPolicies = networkPolicies
    .flatMap(({ spec }) => [...(spec.ingress ?? []), ...(spec.egress ?? [])])
    .flatMap((rule) => [...(rule.from ?? []), ...(rule.to ?? [])])
    .flatMap(({ ipBlock }) => (ipBlock ? [ipBlock.cidr, ...(ipBlock.except ?? [])] : []));
  return [...ofTiers, ...ofPolicies];
}

/** Returns external addresses: at every address where a policy's effect can change, if no pod or node has it. */
function outsideParties(objects: ReachObjects, { networkPolicies, clusterNetworkPolicies = [] }: NamingPolicies): readonly ReachParty[] {
  const owners = new NarrowedObjects(objects);
  const named = { ...objects, networkPolicies, clusterNetworkPolicies, pods: [], nodes: [] };
  return probedAddresses(named)
    .filter((address) => whoHas(owners.forAddress(address), address).is === 'external')
    .map((address) => ({ is: 'outside', address }));
}

function familiesOf(party: ReachParty): Family | '' {
  return party.is === 'outside' ? parseIp(party.address).family : '';
}

/** Adds the first party to names that several units have. */
function withUniqueNames(units: readonly Unit[]): Unit[] {
  const uses = Map.groupBy(units, ({ name }) => name);
  return units.map((unit) =>
    (uses.get(unit.name)?.length ?? 0) < 2 ? unit : { ...unit, name: `${unit.name} (${memberName(unit.parties[0])}${more(unit)})` },
  );
}

function memberName(party: ReachParty | undefined): string {
  if (party?.is === 'pod') return keyOf(party.pod).split('/')[1] ?? '';
  return party?.is === 'outside' ? party.address : (party?.node.metadata.name ?? '');
}

function more({ parties }: Unit): string {
  return parties.length === 1 ? '' : ` and ${parties.length - 1} more`;
}

/**
 * Returns two parties of a pair of units: different pods if both units are one, and a node other than that of the pod if there is one, because
 * a node always reaches its own pods. Undefined if there are no two parties.
 */
export function pairOf(from: Unit, to: Unit): readonly [ReachParty, ReachParty] | undefined {
  const [source] = from.parties;
  const destination = to.parties.find((party) => party !== source);
  if (!source || !destination) return undefined;
  if (source.is !== 'node' || destination.is !== 'pod') return [source, destination];
  const nodeName = destination.pod.spec.nodeName;
  return [from.parties.find((party) => party.is === 'node' && party.node.metadata.name !== nodeName) ?? source, destination];
}

/**
 * Joins units of one namespace that policies do not distinguish, if there are more than a reader can use: a table has a row for each pair. The
 * name of a joined unit is that of its first workload, with the number of the others.
 */
export function joinedUnits(reach: Reach, units: readonly Unit[], most: number): readonly Unit[] {
  if (units.length <= most) return units;
  const keyOfUnit = ({ name, parties: [first] }: Unit): string =>
    first?.is === 'pod' ? `${first.pod.metadata.namespace} ${[...addressesOf(first).keys()].join()} ${reach.effectText(first)}` : name;
  return [...Map.groupBy(units, keyOfUnit).values()].flatMap((same) => {
    const [first] = same;
    if (!first || same.length === 1) return first ?? [];
    return { name: `${first.name} and ${same.length - 1} more`, parties: same.flatMap(({ parties }) => parties) };
  });
}
