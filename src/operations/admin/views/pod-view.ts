import type { PodView } from '../../../api/object.ts';
import { hostPortText } from '../../../dataplane/compile/host-port.ts';
import { isIngressMeterKey, isMeterKey, meterMessage } from '../../../dataplane/targets/bridge/bridge-entry.ts';
import type { SwitchKey } from '../../../dataplane/targets/switch/switch-entry.ts';
import type { Link } from '../../../netlink/links.ts';
import { decodeMeterMod } from '../../../openflow/meter.ts';
import { type Lease, podName } from '../../../pods/ipam/lease.ts';
import { hostInterfaceName, podOwner } from '../../../pods/network/attachment-names.ts';
import type { NodePodNetwork } from '../../../pods/network/pod-network.ts';
import type { InterfaceState } from '../../diagnose/entries/node-entries.ts';
import type { NodeSnapshot } from '../../diagnose/entries/node-reader.ts';
import type { Parts } from '../../diagnose/entries/targets.ts';
import { holdingsOf } from './holdings.ts';

/** Inspects an attached pod's interfaces, flows and routes. */
export type PodChecker = Pick<NodePodNetwork, 'check'>;

export interface PodSources {
  readonly parts: Parts;
  readonly snapshot: NodeSnapshot;
  /** The node's interfaces by name, as the kernel reports them. */
  readonly links: ReadonlyMap<string, Link>;
  readonly stateOf: (name: string) => InterfaceState | undefined;
  /** Inspects the inside of the pod as well; returns a sentence for each difference. */
  readonly check?: (lease: Lease) => Promise<readonly string[]>;
}

export async function podView(lease: Lease, sources: PodSources): Promise<PodView> {
  const { parts, snapshot, links, stateOf, check } = sources;
  const owner = podOwner(lease, lease.pod);
  const hostInterface = lease.attached?.hostIfName ?? hostInterfaceName(lease, lease.pod);
  const wantedOfPort = wantedPort(parts, `port/${hostInterface}`);
  const ofPort = stateOf(hostInterface)?.ofPort ?? null;
  const link = links.get(hostInterface);
  const holdings = holdingsOf(parts, snapshot, [owner]);
  const found = check === undefined || !lease.attached ? [] : await check(lease);
  const differences = [
    ...(lease.attached ? [] : ['its ADD has not finished']),
    ...(check
      ? found
      : [...linkDifferences(hostInterface, link), ...portDifferences(hostInterface, wantedOfPort, ofPort), ...holdings.differences]),
  ];
  return {
    ...holdings,
    name: podName(lease),
    state: differences.length === 0 ? 'ok' : holdings.state === 'ok' ? 'changed' : holdings.state,
    differences,
    containerId: lease.containerId,
    interface: lease.ifName,
    hostInterface,
    addresses: lease.addresses.map(({ ip }) => ip.text),
    mac: lease.mac,
    netns: lease.netns,
    wantedOfPort,
    ofPort,
    link: link?.state ?? 'missing',
    mtu: link?.mtu ?? null,
    egress: limitOf(parts, owner, 'egress'),
    ingress: limitOf(parts, owner, 'ingress'),
    hostPorts: (lease.hostPorts ?? []).map((each) => `${hostPortText(each)} to ${each.containerPort}`),
  };
}

/** Limit of the owner's meter; there is at most one for each direction. */
function limitOf({ bridge: { desired } }: Parts, owner: string, direction: 'egress' | 'ingress'): PodView['egress'] {
  const value = desired
    .keysOf(owner)
    .filter((key) => isMeterKey(key) && isIngressMeterKey(key) === (direction === 'ingress'))
    .map((key) => desired.wanted(key))[0];
  const band = value === undefined ? undefined : decodeMeterMod(meterMessage(value)).bands[0];
  return band ? { rate: band.rate * 1_000, burst: band.burst * 1_000 } : null;
}

function wantedPort({ switch: { desired } }: Parts, key: SwitchKey): number | null {
  const wanted = desired.wanted(key);
  return wanted?.kind === 'port' ? wanted.port.ofPort : null;
}

function linkDifferences(name: string, link: Link | undefined): string[] {
  if (!link) return [`host interface ${name} is missing`];
  if (link.state === 'down') return [`host interface ${name} is down`];
  return link.carrier ? [] : [`host interface ${name} has no carrier: the pod's end is down or does not exist`];
}

function portDifferences(name: string, wanted: number | null, actual: number | null): string[] {
  if (wanted === null) return [`port ${name} is not desired`];
  return actual === wanted ? [] : [`port ${name} has OpenFlow number ${actual ?? 'none'} and not ${wanted}`];
}
