import { type Cidr, cidrAddress, type Family, type Ip } from '../../base/net/ip.ts';
import { ctMark, reg } from '../pipeline/fields.ts';
import type { Flow, Match, Step } from '../pipeline/flow.ts';
import { goto, load, priority, resubmitAsOpened } from '../pipeline/flow.ts';
import type { Mark } from '../pipeline/registers.ts';
import { zones } from '../pipeline/well-known.ts';
import { familiesOf, type NodeEnvironment } from './environment.ts';

/**
 * ICMP errors about known connections. No policy is asked about them, and they carry octets of their sender's choice: one passes only if
 * its sender is an end of the connection that it quotes. Table `errorEnds` is looked up by the original tuple of that connection. Where
 * nothing matches, the error is dropped.
 *
 * The endpoint of a Service is not in that tuple; the connection's mark has its port instead.
 */
export const errorState = { new: '-', rel: '+', trk: '+' } as const;

/**
 * ICMP errors in table `state`. Those from the gateway pass: routers outside send them, and the tracker knows their connection. So do those of another node
 * itself, which is a hop. Neither needs the original tuple. The others are compared with it.
 *
 * Of an error of the opening side the kernel's tracker reports `rel` alone, and Open vSwitch has the original tuple only of packets that are new,
 * established or replies (lib/packets.h `pkt_metadata_from_flow`, lib/flow.h `is_ct_valid`): on that data path the lookup does nothing, and the error is
 * dropped. So a pod's own error about an answer to it does not arrive there (`docs/limits.md`).
 */
export function errorsOfState(first: readonly Step[]) {
  const standing = [...first, load(reg.verdict('standing'))];
  const ofRouters: readonly (readonly Mark[])[] = [[reg.source('gateway')], [reg.source('tunnel'), reg.sentBy('node')]];
  return {
    ofRouters: ofRouters.map((regs) => ({ regs, steps: [...standing, goto('egressEntry')] })),
    others: [...standing, resubmitAsOpened('errorEnds')],
  };
}

function passes(match: Match): Flow {
  return { table: 'errorEnds', priority: priority.normal, match, steps: [goto('egressEntry')] };
}

/** Errors of the endpoint on another node, whose own node compared it with the connection. Pure. */
export function errorsOfOthers(environment: NodeEnvironment): readonly Flow[] {
  const ctMarks = [ctMark.service('yes'), ctMark.receiver(environment.tunnel.ofPort)];
  return familiesOf(environment).map((payload) => ({
    ...passes({ payload, ctMarks, regs: [reg.source('tunnel')] }),
    priority: priority.higher,
  }));
}

/** Errors of a local pod. Pure. */
export function errorsOfPod(inPort: number, address: Ip): readonly Flow[] {
  const payload = address.family;
  // A connection mark has room for the lower 16 bits: ports of pods have no others.
  const endpoint = [ctMark.service('yes'), ctMark.receiver(inPort % 0x1_0000)];
  return [
    passes({ inPort, payload, ipSrc: address }),
    { ...passes({ inPort, payload, ipDst: address }), priority: priority.high },
    { ...passes({ inPort, payload, ctMarks: endpoint }), priority: priority.higher },
  ];
}

/**
 * Errors from another node's pods, about connections of that node's pods: which of them is the end, that node decides. And what shows that the
 * node itself sent a packet, which the tracker may translate afterwards. Pure.
 */
export function errorsOfPeer(inPort: number, cidr: Cidr, sender: Mark): readonly Flow[] {
  const payload = cidr.family;
  const regs = [reg.source('tunnel'), sender];
  return [
    passes({ payload, ipSrc: cidr, regs }),
    { ...passes({ payload, ipDst: cidr, regs }), priority: priority.high },
    {
      table: 'spoofGuard',
      // Below what drops neighbour discovery.
      priority: priority.above,
      match: { inPort, payload, protocol: icmpOf[payload], ipSrc: cidrAddress(cidr, 1n), regs: [sender] },
      steps: [load(reg.sentBy('node')), goto('unSnat')],
    },
  ];
}

/**
 * ICMP errors are looked up before they are translated, for those of Services need more than other packets of known connections.
 *
 * - The kernel's data path translates what belongs to the opening side only by an action that commits. Source: Linux 6.1
 *   net/openvswitch/conntrack.c `ovs_ct_nat`.
 * - Where a translation over IPv6 changes the source, the userspace tracker of Open vSwitch writes a checksum of TCP or UDP into the error itself: into
 *   the address that it quotes, or into its MTU. So the error gets that source before. Source: lib/packets.c `packet_update_csum128`, called for
 *   the protocol of the connection, not of the packet. Of IPv4 it knows the packet's own. Table `snat` does the same for its zone.
 *
 * Pure.
 */
export function translationOfErrors(environment: NodeEnvironment): readonly Flow[] {
  return familiesOf(environment).flatMap((payload) => {
    const ct = { do: 'ct', zone: zones[payload].main, exec: [] } as const;
    const translate = (commit: boolean): Step => ({ ...ct, commit, next: 'state', nat: { kind: 'restore' } });
    const ofService = (rpl: '+' | '-', ...steps: readonly Step[]): Flow => ({
      table: 'errorTranslation',
      priority: priority.normal,
      match: { payload, ctState: { rel: '+', rpl, inv: '-', trk: '+' }, ctMarks: [ctMark.service('yes')] },
      steps,
    });
    return [
      ...errorTypes[payload].map(
        (icmpType): Flow => ({
          table: 'track',
          priority: priority.high,
          match: { payload, protocol: icmpOf[payload], icmpType },
          steps: [{ ...ct, commit: false, next: 'errorTranslation' }],
        }),
      ),
      ofService('-', translate(true)),
      ...(payload === 'ipv6' ? [ofService('+', { do: 'setIpSrcToOpened' }, translate(false))] : []),
      { table: 'errorTranslation', priority: priority.low, match: { payload }, steps: [translate(false)] },
    ];
  });
}

/** Destination unreachable, packet too big, time exceeded, parameter problem. Source: RFC 792; RFC 4443 section 3. */
const errorTypes: Readonly<Record<Family, readonly number[]>> = { ipv4: [3, 11, 12], ipv6: [1, 2, 3, 4] };

const icmpOf: Readonly<Record<Family, 'icmp' | 'icmp6'>> = { ipv4: 'icmp', ipv6: 'icmp6' };
