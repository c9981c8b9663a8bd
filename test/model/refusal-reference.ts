import type { Ip } from '../../src/base/net/ip.ts';
import { echoRequest, type Packet } from '../../src/dataplane/switch-model/packet.ts';

/** Packet that policy denies, and what is known of its two ends. */
export interface DeniedPacketFacts {
  readonly packet: Packet;
  readonly sender: 'pod of this node' | 'pod of another node' | 'node' | 'external client';
  /** Pod whose policies deny: `blocked` if too little is known of it to evaluate them. */
  readonly subject: 'policed' | 'blocked';
  /**
   * The end that is not the subject: how long its address is known to be a pod's (ms), `unknown` for an unused address of a pod network, or
   * an address outside of the pod networks.
   */
  readonly peer: number | 'unknown' | 'external';
  /** Verdict of the policies as they are now. */
  readonly now: 'allow' | 'deny';
  /** Answer configured for the rule that denies. */
  readonly denied: 'reject' | 'drop';
}

/** Time for which an address has to be known before connections to or from it are refused (ms): other nodes learn of pods meanwhile. */
export const knownForMs = 3_000;

/**
 * Documented answer to a denied packet; undefined if there is none. No flow and no register is known here.
 *
 * 1. Answered are packets that open a connection: a TCP SYN by a reset, UDP, SCTP and ICMP echo requests by "administratively prohibited".
 * 2. Replies, resets, ICMP errors, later packets of a connection and multicast are never answered.
 * 3. Only pods are answered, on any node. Nodes and external clients are not.
 * 4. Nothing is answered for a pod that is blocked, and nothing about an address that is not known as a pod's, or not for long.
 */
export function documentedAnswer(facts: DeniedPacketFacts): 'reset' | 'prohibited' | undefined {
  const { packet, sender, subject, peer, now, denied } = facts;
  if (denied === 'drop' || now === 'allow' || subject === 'blocked') return undefined;
  if (sender === 'node' || sender === 'external client') return undefined;
  if (peer === 'unknown' || (typeof peer === 'number' && peer < knownForMs)) return undefined;
  return answerToOpening(packet);
}

/** Answer to a packet by what it is alone. */
export function answerToOpening({ payload, protocol, tcpFlags = 'syn', icmpType, icmpCode = 0, ipSrc, ipDst }: Packet) {
  if (payload === 'arp' || payload === 'other' || !isHost(ipSrc) || !isHost(ipDst)) return undefined;
  switch (protocol) {
    case 'tcp':
      return tcpFlags === 'syn' ? ('reset' as const) : undefined;
    case 'udp':
    case 'sctp':
      return 'prohibited' as const;
    case 'icmp':
    case 'icmp6':
      return icmpType === echoRequest[protocol] && icmpCode === 0 ? ('prohibited' as const) : undefined;
    default:
      return undefined;
  }
}

const several = { ipv4: /^(22[4-9]|2[3-5]\d|0|127)\./, ipv6: /^(ff|::1?$)/ } as const;

function isHost(ip: Ip | undefined): ip is Ip {
  return ip !== undefined && !several[ip.family].test(ip.text);
}
