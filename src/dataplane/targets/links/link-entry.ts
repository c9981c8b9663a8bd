import type { Link } from '../../../netlink/links.ts';
import type { PodEnd } from '../../../netlink/pod-interfaces/pod-end.ts';
import { mainTable } from '../../../netlink/routing/routes.ts';
import type { PodLink, StandingPair } from '../../desired/pod-link.ts';

/** `link/NAME`, with the name of the host end. */
export type LinkKey = `link/${string}`;

/** Pair of interfaces of a pod or of a pre-plugged port, desired or observed. */
export interface LinkEntry {
  /** Desired settings of a pod's pair; absent for a pair that no pod has. */
  readonly link?: PodLink;
  /** Settings of a pre-plugged port that no pod has. */
  readonly idle?: StandingPair;
  /** Differences from the desired state, one sentence each; empty in a desired entry. */
  readonly differs: readonly string[];
}

export function linkKey(hostName: string): LinkKey {
  return `link/${hostName}`;
}

export function wantedLink(link: PodLink): LinkEntry {
  return { link, differs: [] };
}

export function idlePair(idle: StandingPair): LinkEntry {
  return { idle, differs: [] };
}

export function sameLinkEntry(a: LinkEntry, b: LinkEntry): boolean {
  return a === b || (a.differs.join() === b.differs.join() && sameDesiredLink(a, b));
}

/** Reports whether both entries are of the same pod or pre-plugged port, desired with the same settings, or of none. */
export function sameDesiredLink(a: LinkEntry, b: LinkEntry): boolean {
  return details(a.link) === details(b.link) && textOf(a.idle) === textOf(b.idle);
}

function textOf(idle: StandingPair | undefined): string {
  return Object.values(idle ?? {}).join(' ');
}

/** Returns the settings that are compared, without what is known from earlier creation: that does not change what is desired. */
function details(link: PodLink | undefined): string {
  if (link === undefined) return '';
  const { addresses, gateways, routes, made: _, ...plain } = link;
  const texts = [
    ...addresses.map(({ address, prefixLength }) => `${address.text}/${prefixLength}`),
    ...gateways.map(({ address, mac }) => `by ${address.text} ${mac}`),
    ...routes.map(({ destination, gateway }) => `${destination.text} by ${gateway?.text}`),
  ];
  return `${Object.values(plain).join(' ')} ${texts.join(' ')}`;
}

/** Returns differences of the host end. A pre-plugged port's has no alias. @param noIpv6 whether it has no IPv6 */
export function hostDifferences(wanted: PodLink | StandingPair, link: Link, noIpv6 = true): readonly string[] {
  const { hostName, mtu, hostEnd } = wanted;
  const layer2Only = hostEnd === 'layer2Only';
  const alias = 'farName' in wanted ? undefined : wanted.alias;
  return [
    ...(link.state === 'up' ? [] : [`${hostName} is down`]),
    ...(link.mtu === mtu ? [] : [`${hostName} has MTU ${link.mtu} and not ${mtu}`]),
    ...(link.alias === alias ? [] : [`${hostName} has ${link.alias === undefined ? 'no alias' : 'another alias'}`]),
    ...(layer2Only && link.arp === 'on' ? [`${hostName} answers ARP`] : []),
    ...(layer2Only && !noIpv6 ? [`${hostName} has IPv6`] : []),
  ];
}

/** Returns differences of a pre-plugged port's far end. @param alias desired alias; undefined: none */
export function farDifferences(
  { farName, mtu }: { readonly farName: string; readonly mtu: number },
  link: Link,
  alias: string | undefined,
): readonly string[] {
  return [
    ...(link.state === 'up' ? [] : [`${farName} is down`]),
    ...(link.mtu === mtu ? [] : [`${farName} has MTU ${link.mtu} and not ${mtu}`]),
    ...(link.alias === alias ? [] : [`${farName} has ${link.alias === undefined ? 'no alias' : 'another alias'}`]),
  ];
}

/** Differences of the interface itself, which are repaired, and others inside the pod, which the pod may have made itself. */
interface PodEndDifferences {
  readonly differs: readonly string[];
  readonly inside: readonly string[];
}

/**
 * Returns differences of the pod's end. Only what the agent configured counts: a service mesh, or the pod itself, may add to it. If the
 * interface has another name, nothing else is compared: the launcher of a virtual machine renames it and adds it to a bridge.
 */
export function podEndDifferences(wanted: PodLink, end: PodEnd | undefined): PodEndDifferences {
  const { podName } = wanted;
  if (end === undefined) return { differs: [], inside: [`${podName} is not in its namespace`] };
  if (end.link.name !== podName) return { differs: [], inside: [`${podName} is named ${end.link.name}`] };
  // The kernel removes the routes of an interface that goes down; repairing the interface restores them.
  return { differs: interfaceDifferences(wanted, end), inside: end.link.state === 'down' ? [] : routingDifferences(wanted, end) };
}

function interfaceDifferences(wanted: PodLink, { link, transmitChecksum }: PodEnd): readonly string[] {
  const { podName, mac, mtu, checksumOffload } = wanted;
  return [
    ...(link.state === 'up' ? [] : [`${podName} is down`]),
    ...(link.mac === mac ? [] : [`${podName} has MAC ${link.mac} and not ${mac}`]),
    ...(hasRoomFor(wanted, link.mtu) ? [] : [`${podName} has MTU ${link.mtu} and not ${mtu}`]),
    // For an interface on a pre-plugged port, the far end computes checksums.
    ...(checksumOffload === 'off' && transmitChecksum === 'on' && wanted.farName === undefined
      ? [`${podName} leaves checksums to the data path`]
      : []),
  ];
}

/**
 * Reports whether the MTU is acceptable. A pod may reduce its own MTU, but a smaller one left over from an earlier node MTU is a
 * difference.
 */
export function hasRoomFor({ mtu, made }: PodLink, podMtu: number): boolean {
  return podMtu === mtu || (podMtu < mtu && podMtu !== made?.mtu);
}

function routingDifferences({ podName, addresses, gateways, routes, made }: PodLink, end: PodEnd): readonly string[] {
  const has = (text: string): boolean => end.addresses.some(({ address, prefixLength }) => `${address.text}/${prefixLength}` === text);
  const tables = made?.routeTables ?? {};
  const missing = (text: string, via: string | undefined, table?: number): boolean =>
    !end.routes.some(
      (route) => route.destination.text === text && (via === undefined || route.gateway?.text === via) && (!table || route.table === table),
    );
  return [
    ...addresses
      .map(({ address, prefixLength }) => `${address.text}/${prefixLength}`)
      .filter((text) => !has(text))
      .map((text) => `address ${text} is missing on ${podName}`),
    ...gateways
      .filter(({ address }) => missing(address.family === 'ipv4' ? '0.0.0.0/0' : '::/0', address.text, tables[address.family] ?? mainTable))
      .map(({ address }) => `default route by ${address.text} is missing on ${podName}`),
    ...routes
      .filter(({ destination, gateway }) => missing(destination.text, gateway?.text))
      .map(({ destination }) => `route to ${destination.text} is missing on ${podName}`),
  ];
}
