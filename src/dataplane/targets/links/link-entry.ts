import type { Link } from '../../../netlink/links.ts';
import type { PodEnd } from '../../../netlink/pod-interfaces/pod-end.ts';
import { mainTable } from '../../../netlink/routing/routes.ts';
import type { PodLink, StandingPair } from '../../desired/pod-link.ts';

/** `link/NAME`, by the node's end. */
export type LinkKey = `link/${string}`;

/** A pair of interfaces of a pod or of a standing port, wanted or as it was seen. */
export interface LinkEntry {
  /** What it is to be; absent of a pair that no pod has. */
  readonly link?: PodLink;
  /** Of a standing port that no pod has. */
  readonly idle?: StandingPair;
  /** What is otherwise, a sentence each; none of a wanted one. */
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

/** Whether both entries are of the same pod or standing port, desired with the same settings, or of none. */
export function sameDesiredLink(a: LinkEntry, b: LinkEntry): boolean {
  return details(a.link) === details(b.link) && textOf(a.idle) === textOf(b.idle);
}

function textOf(idle: StandingPair | undefined): string {
  return Object.values(idle ?? {}).join(' ');
}

/** Not what is known from before: that changes nothing of what is wanted now. */
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

/** What of the node's end is otherwise. A standing port's has no alias. @param noIpv6 whether it has no IPv6 */
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

/** What of a standing port's far end is otherwise. @param alias that it is to have; undefined: none */
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

/** What of the interface itself is otherwise, which is put back, and what else in the pod, which may be the pod's own doing. */
interface PodEndDifferences {
  readonly differs: readonly string[];
  readonly inside: readonly string[];
}

/**
 * Only what was put there counts: a service mesh, or the pod itself, may add to it. Of an interface with another name nothing else is said:
 * a virtual machine's launcher, which puts it into a bridge, does that.
 */
export function podEndDifferences(wanted: PodLink, end: PodEnd | undefined): PodEndDifferences {
  const { podName } = wanted;
  if (end === undefined) return { differs: [], inside: [`${podName} is not in its namespace`] };
  if (end.link.name !== podName) return { differs: [], inside: [`${podName} is named ${end.link.name}`] };
  // The kernel takes the routes of an interface that goes down; they come back with it.
  return { differs: interfaceDifferences(wanted, end), inside: end.link.state === 'down' ? [] : routingDifferences(wanted, end) };
}

function interfaceDifferences(wanted: PodLink, { link, transmitChecksum }: PodEnd): readonly string[] {
  const { podName, mac, mtu, checksumOffload } = wanted;
  return [
    ...(link.state === 'up' ? [] : [`${podName} is down`]),
    ...(link.mac === mac ? [] : [`${podName} has MAC ${link.mac} and not ${mac}`]),
    ...(hasRoomFor(wanted, link.mtu) ? [] : [`${podName} has MTU ${link.mtu} and not ${mtu}`]),
    // Of what stands on a standing port, the far end computes them.
    ...(checksumOffload === 'off' && transmitChecksum === 'on' && wanted.farName === undefined
      ? [`${podName} leaves checksums to the data path`]
      : []),
  ];
}

/** A smaller MTU is the pod's own affair, unless it is only what the node had before. */
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
