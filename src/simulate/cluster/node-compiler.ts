import { finish } from '../../base/async/steps.ts';
import { type Cidr, cidrAddress, type Family, hostCidr, type Ip, ipFromValue, isIp, parseCidr, parseIp } from '../../base/net/ip.ts';
import { type Mac, parseMac } from '../../base/net/mac.ts';
import { announcementsOwner, compileAnnouncements } from '../../dataplane/compile/compile-announcements.ts';
import { compileRefusals, refusalsOwner } from '../../dataplane/compile/compile-denied-packets.ts';
import { compileSubject } from '../../dataplane/compile/compile-entry.ts';
import { compileNode } from '../../dataplane/compile/compile-node.ts';
import type { PeerIntent } from '../../dataplane/compile/compile-peer.ts';
import { compilePod, type PodIntent } from '../../dataplane/compile/compile-pod.ts';
import { compileProbes, probesOwner } from '../../dataplane/compile/compile-probes.ts';
import { compileUnservedPorts, unservedPortsOwner } from '../../dataplane/compile/compile-service-path.ts';
import { compileTimeExceeded, timeExceededOwner } from '../../dataplane/compile/compile-time-exceeded.ts';
import type { NodeEnvironment } from '../../dataplane/compile/environment.ts';
import { nothing } from '../../dataplane/desired/host-entries.ts';
import { type Owner, ownerOf } from '../../dataplane/pipeline/cookie.ts';
import type { Flow } from '../../dataplane/pipeline/flow.ts';
import type { NumberedRow } from '../../dataplane/pipeline/flow-pattern.ts';
import { ofPorts, podOfPorts } from '../../dataplane/pipeline/well-known.ts';
import type { PolicyEngine } from '../../policy/engine/policy-engine.ts';
import { PolicyFlows } from '../../policy/flows/policy-flows.ts';
import type { PolicyMatrix } from '../../policy/matrix/matrix.ts';
import { keyOf } from '../../policy/reach/objects.ts';
import type { NodeObject, PodObject } from '../../policy/verify/reference/objects.ts';
import { AddressedFlows, type AddressedOwner, type OwnersByAddress } from './addressed-flows.ts';
import { FlowLayer, type NamedFlows } from './flow-layer.ts';

/** MTU of pods where the network of the nodes has 1500 (bytes). It does not affect which packets are forwarded. */
const POD_MTU = 1_450;

/** Pod of a simulated node, with the numbers that the API lacks. */
interface PlacedPod extends PodIntent {
  /** `namespace/name`. */
  readonly name: string;
}

/** A node's own inputs. */
export interface SimulatedParts {
  readonly environment: NodeEnvironment;
  readonly pods: readonly PlacedPod[];
}

/** Settings of agents that are the same on all nodes, and that packets depend on. */
export interface ClusterSettings extends Pick<NodeEnvironment, 'serviceCidrs' | 'policyMode' | 'denied' | 'directPackets' | 'wireGuard'> {
  readonly tunnel: Pick<NodeEnvironment['tunnel'], 'type' | 'port'>;
  /** Returns a peer as a node reaches it; absent: through the tunnel. */
  readonly reach?: ReachOfPeer;
}

/** @param node name of the node that sends */
export type ReachOfPeer = (node: string, peer: PeerIntent) => PeerIntent;

/** Returns the settings of a cluster of which only the objects are known. */
export function usualSettings(serviceCidrs: readonly Cidr[]): ClusterSettings {
  return { tunnel: { type: 'geneve', port: 6_081 }, serviceCidrs };
}

/** Derives the environment of a node and the interfaces of its pods. OpenFlow ports are assigned in the order of names, MACs by address. */
export function partsOf(node: NodeObject, pods: readonly PodObject[], { tunnel, reach: _, ...settings }: ClusterSettings): SimulatedParts {
  const podCidrs = onePerFamily((node.spec.podCIDRs ?? []).map(parseCidr));
  const addresses = podCidrs.map((cidr) => cidrAddress(cidr, 1n));
  const environment: NodeEnvironment = {
    gateway: { name: 'antrea-gw0', ofPort: ofPorts.gateway, mac: macOf(addresses[0]), mtu: POD_MTU, addresses },
    tunnel: { ofPort: ofPorts.tunnel, type: tunnel.type, port: tunnel.port },
    podCidrs,
    transport: transportOf(node),
    ...settings,
  };
  const placed = pods
    .toSorted((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1))
    .map((pod, at): PlacedPod => {
      const own = onePerFamily((pod.status.podIPs ?? []).map(({ ip }) => parseIp(ip)));
      return { name: keyOf(pod), ofPort: podOfPorts.first + at, mac: macOf(own[0]), addresses: own };
    });
  return { environment, pods: placed };
}

function onePerFamily<T extends Cidr | Ip>(all: readonly T[]): readonly T[] {
  return (['ipv4', 'ipv6'] as const).flatMap((family) => all.find((each) => each.family === family) ?? []);
}

/** Ethernet address of a locally administered range, by the last 32 bits of an IP address. */
function macOf(ip: Ip | undefined): Mac {
  const digits = ((ip?.value ?? 0n) & 0xffff_ffffn).toString(16).padStart(8, '0');
  return parseMac(`0a:58:${digits.slice(0, 2)}:${digits.slice(2, 4)}:${digits.slice(4, 6)}:${digits.slice(6)}`);
}

export function transportOf({ status }: NodeObject): readonly Ip[] {
  return onePerFamily(status.addresses.flatMap(({ type, address }) => (type === 'InternalIP' && isIp(address) ? [parseIp(address)] : [])));
}

export function peerOf(node: NodeObject): PeerIntent {
  return { name: node.metadata.name, podCidrs: (node.spec.podCIDRs ?? []).map(parseCidr), transport: transportOf(node) };
}

const families: readonly Family[] = ['ipv4', 'ipv6'];

/**
 * Compiles what a node wants on its bridge, without its peers and Services.
 *
 * @param engine engine whose local pods are those of the node
 */
export function compileLayers({ environment, pods }: SimulatedParts, engine: PolicyEngine): readonly NamedFlows[] {
  const layer = new FlowLayer();
  layer.want(ownerOf('node'), compileNode(environment));
  layer.want(announcementsOwner, compileAnnouncements());
  layer.want(unservedPortsOwner, compileUnservedPorts(environment));
  layer.want(timeExceededOwner, compileTimeExceeded(environment));
  layer.want(refusalsOwner, compileRefusals(environment));
  layer.want(probesOwner, compileProbes(environment));
  const policyFlows = new PolicyFlows({ families });
  const addressRows = new Map<Owner, NumberedRow>();
  for (const [owner, rows] of policyRows(policyFlows, engine.matrix))
    if ('number' in rows) addressRows.set(owner, rows);
    else layer.want(owner, { ...nothing, flows: rows });
  for (const pod of pods) {
    const { name, ...intent } = pod;
    layer.want(ownerOf('pod', name), compilePod(intent));
    const classes = policyFlows.classesOf(name);
    const subject = { ofPort: pod.ofPort, addresses: pod.addresses };
    const standing = classes === 'closed' ? ({ ingress: 'closed', egress: 'closed' } as const) : classes === 'free' ? {} : classes;
    layer.want(ownerOf('subject', name), { ...nothing, flows: compileSubject({ ...subject, ...standing }) });
  }
  return [layer, new AddressedFlows(ownersOf(addressRows))];
}

/** Rows of all policies, by owner. */
function policyRows(policyFlows: PolicyFlows, matrix: PolicyMatrix): readonly (readonly [Owner, NumberedRow | readonly Flow[]])[] {
  const keysOf = ({ identities, relations }: PolicyMatrix['ingress']) => ({
    identities: new Set(identities.keys()),
    relations: new Set(relations.keys()),
  });
  const change = { subjects: new Set(matrix.subjects.keys()), ingress: keysOf(matrix.ingress), egress: keysOf(matrix.egress) };
  const { wanted, subjects } = finish(policyFlows.round(matrix, change));
  policyFlows.publish(matrix, subjects);
  return wanted.flatMap((rows) => [...rows]);
}

/** Rows for one address each. The names of their owners end with the address as a network. */
function ownersOf(rows: ReadonlyMap<Owner, NumberedRow>): OwnersByAddress {
  const beginnings = new Set(Array.from(rows.values(), (row) => row.rows.owners));
  const compiled = (owner: Owner, { rows: { flowOf }, ip, number }: NumberedRow): AddressedOwner => ({
    owner,
    compile: () => [flowOf(ip, number)],
  });
  return {
    at: (addresses) =>
      addresses.flatMap(({ family, value }) => {
        const { text } = hostCidr(ipFromValue(family, value));
        return [...beginnings].flatMap((beginning) => {
          const owner = `${beginning}${text}` as Owner;
          const row = rows.get(owner);
          return row ? compiled(owner, row) : [];
        });
      }),
    all: () => Array.from(rows, ([owner, row]) => compiled(owner, row)),
  };
}
