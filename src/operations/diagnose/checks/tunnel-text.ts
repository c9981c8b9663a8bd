import type { Finding } from '../../../api/check.ts';
import type { Family } from '../../../base/net/ip.ts';
import type { EchoOutcome } from '../../../netlink/packets/icmp-echo.ts';
import type { ShownMode } from '../../../nodes/modes/peer-modes.ts';
import { trouble } from './check.ts';

/** One family's path to a peer, from gateway to gateway. */
export interface PathFacts {
  readonly family: Family;
  /** Gateway of the peer. */
  readonly to: string;
  /** How this node sends to the peer; absent: through the tunnel. */
  readonly mode?: ShownMode['mode'] | undefined;
  /** Outcome for a small packet. */
  readonly echo: EchoOutcome;
  /** Bytes of the longest packet that was answered. */
  readonly largest: number | undefined;
}

export interface PeerFacts {
  readonly name: string;
  /** Empty: nothing is desired for this peer. */
  readonly ways: readonly PathFacts[];
  readonly transport: { readonly own: string; readonly theirs: string } | undefined;
  /** Carrier of the tunnel: `UDP 6081`, `IP protocol 47`. */
  readonly carrier: string;
  /** UDP port of WireGuard; absent without encryption. */
  readonly wireGuardPort?: number | undefined;
  /** MTU of pods. */
  readonly mtu: number;
  readonly dataPath: 'system' | 'netdev';
  /** True if tunnel packets from it were counted during the test; undefined if that was not measured. */
  readonly received?: boolean;
  /** True if it answers outside of the tunnel. */
  readonly outside?: boolean | undefined;
  /** Families of which other firewall rules drop packets to this node, including answers. */
  readonly silentReplies?: readonly Family[];
  /** True if several nodes were tested and none of them answered. */
  readonly allPeers?: boolean;
}

/** @returns problems of the path to a peer; empty if there are none */
export function assessPeer(facts: PeerFacts): readonly Finding[] {
  if (facts.ways.length === 0) return [unserved(facts)];
  const lost = facts.ways.filter(({ echo, mode = 'tunnel' }) => echo !== 'answered' && mode === 'tunnel');
  const others = facts.ways.filter(({ echo, mode = 'tunnel' }) => echo !== 'answered' && mode !== 'tunnel');
  const narrow = facts.ways.filter(({ echo, largest = 0 }) => echo === 'answered' && largest < facts.mtu);
  return [
    ...(lost.length > 0 ? [unreached(facts, lost)] : []),
    ...others.map((way) => unreachedOtherwise(facts, way)),
    ...(narrow.length > 0 ? [tooNarrow(facts, narrow)] : []),
  ];
}

/** Returns the finding about a path without an answer that is not through the tunnel. */
function unreachedOtherwise(facts: PeerFacts, { family, to, mode }: PathFacts): Finding {
  const { name, transport } = facts;
  const where = `${words(family)} ${to}`;
  const effect = `pods here and on ${name} do not reach each other by ${words(family)}`;
  if (mode === 'blocked')
    return trouble('tunnel.reach', 'problem', {
      what: `${name}: nothing is sent to ${where}, because the node has no WireGuard key`,
      effect,
      remedy: `seinectl get nodes ${name} -o wide; configure encryption there, or wireGuard.unencryptedPeers: allow`,
    });
  const ends = transport ? clues({ ...facts, received: undefined }, transport) : '';
  if (mode === 'wireguard')
    return trouble('tunnel.reach', 'problem', {
      what: `${name}: no answer through WireGuard from ${where}${ends}`,
      effect,
      remedy: letInUdp(facts, facts.wireGuardPort),
    });
  return trouble('tunnel.reach', 'problem', {
    what: `${name}: no answer without a tunnel from ${where}${ends}`,
    effect,
    remedy: `allow packets with pods’ addresses in the network between the nodes (docs/traffic-modes.md), or set trafficEncapMode: encap`,
  });
}

function letInUdp({ name, transport }: PeerFacts, port = 51_820): string {
  const tool = transport?.own.includes(':') ? 'ip6tables' : 'iptables';
  return transport
    ? `${tool} -I INPUT -p udp --dport ${port} -s ${transport.own} -j ACCEPT    # on ${name}, and as much on this node for ${transport.theirs}`
    : `kubectl get node ${name} -o yaml`;
}

function unserved({ name }: PeerFacts): Finding {
  return trouble('tunnel.reach', 'warning', {
    what: `${name} has no pod network or address that this node accepts`,
    effect: `its pods are not reached from here`,
    remedy: `seinectl get nodes ${name}; kubectl get node ${name} -o yaml`,
  });
}

function unreached(facts: PeerFacts, lost: readonly PathFacts[]): Finding {
  const { name, ways, transport } = facts;
  const where = lost.map(({ family, to }) => `${words(family)} ${to}`).join(', ');
  if (lost.every(({ echo }) => echo === 'noRoute'))
    return trouble('tunnel.reach', 'problem', {
      what: `${name}: this node has no route to ${where}`,
      effect: 'the node itself does not reach the pods there; pods may',
      remedy: 'seinectl diff; seinectl resume',
    });
  if (isUnheard(facts, lost)) return untold(facts, where);
  const some = ways.some(({ echo }) => echo === 'answered') ? `, ${words(lost[0]?.family === 'ipv4' ? 'ipv6' : 'ipv4')} answers` : '';
  return trouble('tunnel.reach', 'problem', {
    what: `${name}: no answer through the tunnel from ${where}${some}${transport ? clues(facts, transport) : ''}`,
    effect: `pods here and on ${name} do not reach each other${some === '' ? '' : ` by ${words(lost[0]?.family ?? 'ipv4')}`}`,
    remedy:
      some === '' ? letIn(facts) : `seinectl check --peer <this node>    # on ${name}; and there: sysctl net.ipv4.icmp_echo_ignore_all`,
  });
}

/**
 * Reports whether the firewall rules that `firewall.pods` has found explain the silence. The userspace data path receives tunnel packets
 * before any firewall: if none arrived, there is another problem as well.
 */
function isUnheard({ silentReplies = [], received, dataPath }: PeerFacts, lost: readonly PathFacts[]): boolean {
  return (
    lost.every(({ family, echo }) => echo === 'silent' && silentReplies.includes(family)) && (received !== false || dataPath === 'system')
  );
}

function untold({ name, transport, carrier, received, dataPath }: PeerFacts, where: string): Finding {
  const arrives = received === true && transport ? `; ${carrier} from ${transport.theirs} does arrive here` : '';
  const tunnels = received !== true && dataPath === 'system' ? `, and may drop ${carrier} as well` : '';
  return trouble('tunnel.reach', 'unknown', {
    what: `${name}: no answer from ${where}: the firewall rules that firewall.pods has found drop packets to this node${tunnels}${arrives}`,
    effect: `whether pods here and on ${name} reach each other is not known`,
    remedy: `fix firewall.pods first; then seinectl check --peer ${name}`,
  });
}

/** Returns what is known about the direction. */
function clues(
  { name, received, outside, carrier, allPeers }: Omit<PeerFacts, 'received'> & { readonly received?: boolean | undefined },
  { own, theirs }: NonNullable<PeerFacts['transport']>,
): string {
  const underlay =
    outside === undefined
      ? []
      : [
          outside
            ? `${theirs} answers outside of the tunnel`
            : `${theirs} does not answer outside of the tunnel either: the network between the nodes, or the node itself`,
        ];
  const direction =
    received === undefined
      ? []
      : received
        ? [`${carrier} from ${theirs} does arrive here: packets from ${own} to ${name} are lost, or it answers no ping`]
        : [`no ${carrier} from ${theirs} arrived meanwhile: lost on the way there or back, the direction is not known`];
  const others = allPeers === true ? ['no other node answers either: check this node first'] : [];
  return [...underlay, ...direction, ...others].map((clue) => `; ${clue}`).join('');
}

/** Returns a command for the far end, and for this one: it is not always known which of the two needs it. */
function letIn({ name, transport, carrier, received }: PeerFacts): string {
  if (!transport) return `kubectl get node ${name} -o yaml`;
  const match = carrier.startsWith('UDP') ? `-p udp --dport ${carrier.slice(4)}` : '-p gre';
  const tool = transport.own.includes(':') ? 'ip6tables' : 'iptables';
  const there = `${tool} -I INPUT ${match} -s ${transport.own} -j ACCEPT    # on ${name}, and as much in every filter between`;
  return received === true ? there : `${there}; on this node: ${tool} -I INPUT ${match} -s ${transport.theirs} -j ACCEPT`;
}

function tooNarrow({ name, mtu }: PeerFacts, narrow: readonly PathFacts[]): Finding {
  const least = Math.min(...narrow.map(({ largest = 0 }) => largest));
  const which = narrow.map(({ family, largest }) => `${words(family)} up to ${largest}`).join(', ');
  return trouble('tunnel.mtu', 'problem', {
    what: `${name}: packets of ${mtu} bytes, as pods send them, are lost; answered: ${which}`,
    effect: 'connections open and then hang once they carry much; small requests work',
    remedy:
      least >= 1_280
        ? `defaultMTU: ${least}    # in the configuration of every agent; or raise the MTU of the network between the nodes by ${mtu - least} or more`
        : `raise the MTU of the network between the nodes by ${mtu - least} or more`,
  });
}

function words(family: Family): string {
  return family === 'ipv4' ? 'IPv4' : 'IPv6';
}
