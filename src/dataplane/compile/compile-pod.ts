import type { Family, Ip } from '../../base/net/ip.ts';
import { parseIp } from '../../base/net/ip.ts';
import { nothing, type Wanted } from '../desired/host-entries.ts';
import { ctMark, reg } from '../pipeline/fields.ts';
import type { Flow, Match, Meter, Step } from '../pipeline/flow.ts';
import { goto, load, meter, output, priority } from '../pipeline/flow.ts';
import type { PodPattern, PodPlace } from '../pipeline/flow-pattern.ts';
import { icmpv6 } from '../pipeline/icmpv6.ts';
import { ingressMeters, podOfPorts, zones } from '../pipeline/well-known.ts';
import { shownCommit } from './compile-commit.ts';
import { errorsOfPod } from './compile-errors.ts';
import { linkLocal } from './environment.ts';

/** Interface of a pod on this node. */
export interface PodIntent extends PodPlace {
  /** Limit of sent traffic, if OVS enforces it. */
  readonly egress?: RateLimit;
  /** Limit of received traffic, if OVS enforces it. */
  readonly ingress?: RateLimit;
}

/** Token bucket. */
export interface RateLimit {
  /** Rate in bits per second. */
  readonly rate: number;
  /** Burst in bits. */
  readonly burst: number;
}

const u32Max = 0xffff_ffff;
/** Size of a pod's largest Ethernet frame in kilobits: a frame larger than the bucket would never pass. */
const frameKilobits = Math.ceil((9_216 * 8) / 1_000);

const unspecified: Readonly<Record<Family, Ip>> = { ipv4: parseIp('0.0.0.0'), ipv6: parseIp('::') };

/**
 * Compiles the bridge entries of one pod. Pure, and the same for every pod: Services, and the pod's policy classes (`compileSubject`), have
 * other owners.
 */
export function compilePod(pod: PodIntent): Wanted {
  const flows = pod.addresses.flatMap((ip) => [...(ip.family === 'ipv4' ? arp(pod, ip) : neighbourDiscovery(pod, ip)), ...routed(pod, ip)]);
  const meters = [
    ...(pod.egress ? [meterOf(pod.ofPort, pod.egress)] : []),
    ...(pod.ingress ? [meterOf(ingressMeter(pod.ofPort), pod.ingress)] : []),
  ];
  return { ...nothing, flows: [classify(pod), ...flows, toPort(pod), ...limited(pod)], meters };
}

/** Flows of a pod without limits. */
export const podPattern: PodPattern = (place) => compilePod(place).flows;

/** Returns the number of a pod's meter, derived from its port: unique, and the same after a restart. */
function ingressMeter(ofPort: number): number {
  return ingressMeters.first + ofPort - podOfPorts.first;
}

function meterOf(id: number, { rate, burst }: RateLimit): Meter {
  const kilobits = (bits: number, least: number): number => Math.min(u32Max, Math.max(least, Math.floor(bits / 1_000)));
  return { id, rate: kilobits(rate, 1), burst: kilobits(burst, frameKilobits) };
}

/** Flow that classifies the pod's packets. Everything that a pod sends counts against its limit, including packets dropped later. */
function classify({ ofPort, egress }: PodIntent): Flow {
  const limit = egress ? [meter(ofPort)] : [];
  const steps = [...limit, load(reg.source('pod')), goto('spoofGuard')];
  return { table: 'classify', priority: priority.normal, match: { inPort: ofPort }, steps };
}

function routed(pod: PodIntent, ip: Ip): Flow[] {
  const payload = ip.family;
  return [
    {
      table: 'spoofGuard',
      priority: priority.normal,
      match: { inPort: pod.ofPort, ethSrc: pod.mac, payload, ipSrc: ip },
      steps: [goto('unSnat')],
    },
    {
      table: 'route',
      priority: priority.highest,
      match: { payload, ipDst: ip },
      steps: [{ do: 'setEthDst', mac: pod.mac }, load(reg.destination('pod')), goto('ttl')],
    },
    ...errorsOfPod(pod.ofPort, ip),
    hairpin(ip),
  ];
}

/** Flow for a pod that is client and endpoint of one connection to a Service. */
function hairpin(ip: Ip): Flow {
  return {
    table: 'snatMark',
    priority: priority.normal,
    match: {
      payload: ip.family,
      ipSrc: ip,
      ipDst: ip,
      ctState: { new: '+', trk: '+' },
      ctMarks: [ctMark.service('yes'), ctMark.snat('no')],
    },
    steps: shownCommit({
      zone: zones[ip.family].main,
      next: 'snat',
      exec: [
        { do: 'mark', mark: ctMark.snat('yes') },
        { do: 'mark', mark: ctMark.hairpin('yes') },
        { do: 'mark', mark: ctMark.unadmitted('no') },
      ],
    }),
  };
}

/** Flows that limit received traffic. It counts after it was admitted. The pod's own traffic through a Service is not limited. */
function limited({ ofPort, ingress }: PodIntent): Flow[] {
  if (ingress === undefined) return [];
  const match: Match = { regs: [reg.destination('pod'), reg.outPort(ofPort)] };
  return [{ table: 'output', priority: priority.above, match, steps: [meter(ingressMeter(ofPort)), { do: 'outputToRegister' }] }];
}

function toPort({ ofPort, mac }: PodIntent): Flow {
  return {
    table: 'switch',
    priority: priority.normal,
    match: { ethDst: mac },
    steps: [load(reg.outPort(ofPort)), load(reg.destination('pod')), goto('ingressEntry')],
  };
}

/**
 * Flows for ARP. A pod sends ARP only for its own address, and probes (sender 0.0.0.0, RFC 5227) only about it. Announcements are flooded,
 * up to a rate (`compileAnnouncements`), so that every cache learns of a reused address; all else is forwarded to the address's owner.
 */
function arp(pod: PodIntent, ip: Ip): Flow[] {
  const fromPod: Match = { inPort: pod.ofPort, ethSrc: pod.mac, payload: 'arp', arpSha: pod.mac };
  const guard = (match: Match): Flow => ({
    table: 'spoofGuard',
    priority: priority.normal,
    match: { ...fromPod, ...match },
    steps: [goto('neighbour')],
  });
  const announcement: Match = { inPort: pod.ofPort, payload: 'arp', arpTpa: ip };
  return [
    guard({ arpSpa: ip }),
    guard({ arpSpa: unspecified.ipv4, arpTpa: ip }),
    { table: 'neighbour', priority: priority.high, match: announcement, steps: [goto('announcements')] },
    { table: 'neighbour', priority: priority.normal, match: { payload: 'arp', arpTpa: ip }, steps: [output(pod.ofPort)] },
  ];
}

/**
 * Flows for neighbour discovery, like those for ARP, for the address and the link-local address that Linux derives from the MAC. The
 * link-layer address option is the pod's own or absent (Linux answers unicast probes without it). Source: RFC 4861 sections 4.3, 4.4; RFC
 * 4862 section 5.4.
 */
function neighbourDiscovery(pod: PodIntent, ip: Ip): Flow[] {
  const own = [ip, linkLocal(pod.mac)];
  return [
    ...own.flatMap((address) => solicitations(pod, address)),
    ...own.flatMap((target) => advertisements(pod, target, own)),
    ...delivery(pod, own),
  ];
}

function solicitations(pod: PodIntent, address: Ip): Flow[] {
  const options = [pod.mac, 'absent'] as const;
  return [
    ...options.map((ndSll) => ndGuard(pod, icmpv6.neighbourSolicitation, { ipSrc: address, ndSll })),
    // Duplicate address detection, only for the pod's own addresses.
    ndGuard(pod, icmpv6.neighbourSolicitation, { ipSrc: unspecified.ipv6, ndSll: 'absent', ndTarget: address }),
  ];
}

function advertisements(pod: PodIntent, ndTarget: Ip, sources: readonly Ip[]): Flow[] {
  const options = [pod.mac, 'absent'] as const;
  return sources.flatMap((ipSrc) => options.map((ndTll) => ndGuard(pod, icmpv6.neighbourAdvertisement, { ipSrc, ndTarget, ndTll })));
}

function ndGuard(pod: PodIntent, icmpType: number, match: Match): Flow {
  return {
    table: 'spoofGuard',
    priority: priority.higher,
    match: { inPort: pod.ofPort, ethSrc: pod.mac, payload: 'ipv6', protocol: 'icmp6', icmpType, icmpCode: 0, ...match },
    steps: [goto('neighbour')],
  };
}

function delivery(pod: PodIntent, own: readonly Ip[]): Flow[] {
  const flow = (level: number, match: Match, step: Step): Flow => ({
    table: 'neighbour',
    priority: level,
    match: { payload: 'ipv6', protocol: 'icmp6', ...match },
    steps: [step],
  });
  const { neighbourSolicitation, neighbourAdvertisement } = icmpv6;
  return [
    ...own.map((ndTarget) => flow(priority.normal, { icmpType: neighbourSolicitation, ndTarget }, output(pod.ofPort))),
    ...own.map((ipDst) => flow(priority.normal, { icmpType: neighbourAdvertisement, ipDst }, output(pod.ofPort))),
    // Announcements to all nodes, and its own duplicate detection.
    flow(priority.low, { inPort: pod.ofPort, icmpType: neighbourAdvertisement, ipDst: allNodes }, goto('announcements')),
    ...own.map((ndTarget) => flow(priority.high, { inPort: pod.ofPort, icmpType: neighbourSolicitation, ndTarget }, goto('announcements'))),
  ];
}

const allNodes = parseIp('ff02::1');
