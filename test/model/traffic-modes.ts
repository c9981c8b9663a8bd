import fc from 'fast-check';
import type { Family, Ip } from '../../src/base/net/ip.ts';
import type { PeerIntent } from '../../src/dataplane/compile/compile-peer.ts';
import { wireGuardDevice } from '../../src/dataplane/pipeline/well-known.ts';
import { type PeerEncryption, selectPeerMode } from '../../src/nodes/modes/peer-mode.ts';
import { withOwnedAddresses } from '../../src/policy/reach/owned-addresses.ts';
import type { ForwardedObjects } from '../../src/policy/verify/forwarding-reference/forwarded-objects.ts';
import { type ClusterSettings, usualSettings } from '../../src/simulate/cluster/node-compiler.ts';
import { serviceNetworks } from '../../src/simulate/cluster/service-networks.ts';
import { SimulatedCluster } from '../../src/simulate/cluster/simulated-cluster.ts';
import { completedCluster } from '../../src/simulate/objects/completed-cluster.ts';
import { placedPods } from '../../src/simulate/objects/placed-pods.ts';

/* Random clusters in every traffic mode: each node selects how it sends to each other as agents do, from drawn facts about the pair. */

const modes = ['encap', 'noEncap', 'hybrid', 'wireGuard'] as const;
type TrafficMode = (typeof modes)[number];

const variable = 'SEINE_TEST_TRAFFIC_MODE';

/** Modes of the random clusters of a run: the tunnel, unless it requests another. */
function modesOfRun(text = 'encap'): readonly TrafficMode[] {
  const asked = modes.filter((mode) => mode === text);
  if (asked.length === 0) throw new Error(`${variable}=${text}: ${modes.join(', ')} is wanted`);
  return asked;
}

/** Facts about two nodes that agents observe. */
const pair = fc.record({
  isOnLink: fc.boolean(),
  hasEcho: fc.boolean(),
  hasKey: fc.oneof({ weight: 4, arbitrary: fc.constant(true) }, { weight: 1, arbitrary: fc.constant(false) }),
});

/** Traffic mode of a cluster, with facts about pairs of nodes: those of a pair's number, again from the first. */
export const traffics = fc.record({
  mode: fc.constantFrom(...modesOfRun(process.env[variable])),
  /** Way of packets that are not encrypted, in mode `wireGuard`. */
  unencrypted: fc.constantFrom('encap', 'encap', 'noEncap', 'hybrid' as const),
  unencryptedPeers: fc.constantFrom('drop', 'allow' as const),
  directRoutes: fc.constantFrom('auto', 'auto', 'none' as const),
  verifyDirect: fc.boolean(),
  pairs: fc.array(pair, { minLength: 1, maxLength: 6 }),
});
export type Traffic = typeof traffics extends fc.Arbitrary<infer Value> ? Value : never;

/** Returns the cluster of the objects in a traffic mode. */
export function clusterIn(traffic: Traffic, objects: ForwardedObjects): SimulatedCluster {
  const completed = completedCluster(withOwnedAddresses(placedPods(objects)));
  const { mode, unencrypted, unencryptedPeers } = traffic;
  const encapMode = mode === 'wireGuard' ? unencrypted : mode;
  const settings: ClusterSettings = {
    ...usualSettings(serviceNetworks(completed)),
    ...(encapMode !== 'encap' && { directPackets: true as const }),
    ...(mode === 'wireGuard' && { wireGuard: { device: wireGuardDevice, port: 51_820, unencryptedPeers } }),
    reach: reachIn(traffic, encapMode, completed.nodes.map(({ metadata }) => metadata.name).toSorted()),
  };
  return new SimulatedCluster(completed, settings);
}

function reachIn(
  traffic: Traffic,
  encapMode: Exclude<TrafficMode, 'wireGuard'>,
  names: readonly string[],
): NonNullable<ClusterSettings['reach']> {
  const { mode, unencryptedPeers, directRoutes, verifyDirect, pairs } = traffic;
  return (node, peer) => {
    const [low = 0, high = 0] = [names.indexOf(node), names.indexOf(peer.name)].toSorted((a, b) => a - b);
    // A key, and a link, are those of both; echoes may be lost in one direction.
    const both = pairs[(low * names.length + high) % pairs.length];
    const one = pairs[(names.indexOf(node) * names.length + names.indexOf(peer.name)) % pairs.length];
    const { isOnLink = true, hasKey = true } = both ?? {};
    const encryption: PeerEncryption =
      mode !== 'wireGuard'
        ? { state: 'off' }
        : hasKey
          ? { state: 'encrypted', device: wireGuardDevice }
          : { state: 'noKey', otherwise: unencryptedPeers };
    const selected = (['ipv4', 'ipv6'] as const).flatMap((family) => {
      if (!hasNetwork(peer, family)) return [];
      const way = selectPeerMode(
        { encapMode, directRoutes, verifyDirect },
        {
          ...{ encryption, address: addressOf(peer, family), announces: encapMode !== 'encap', isExpected: true, isListed: false },
          ...{ link: isOnLink ? 'eth0' : undefined, echo: one?.hasEcho ? 'answered' : 'lost' },
        },
      );
      return way.mode === 'tunnel' ? [] : [[family, way.path] as const];
    });
    const mayBeDirect = encapMode !== 'encap' || (mode === 'wireGuard' && hasKey);
    return {
      ...peer,
      ...(selected.length > 0 && { direct: Object.fromEntries(selected) }),
      ...(mayBeDirect && { maySendDirectly: true as const }),
      ...(mode === 'wireGuard' && unencryptedPeers === 'drop' && { refusesTunnel: true as const }),
    };
  };
}

function hasNetwork({ podCidrs }: PeerIntent, family: Family): boolean {
  return podCidrs.some((cidr) => cidr.family === family);
}

function addressOf({ transport }: PeerIntent, family: Family): Ip | undefined {
  return transport.find((ip) => ip.family === family);
}
