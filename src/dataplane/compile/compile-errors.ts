import { addressBits, type Cidr, cidrOf, type Family, type Ip } from '../../base/net/ip.ts';
import { ctMark, reg } from '../pipeline/fields.ts';
import type { Flow, Match, Step } from '../pipeline/flow.ts';
import { goto, load, priority, resubmitAsOpened } from '../pipeline/flow.ts';
import type { Mark } from '../pipeline/registers.ts';
import { zones } from '../pipeline/well-known.ts';
import { familiesOf, type NodeEnvironment } from './environment.ts';

/**
 * State of ICMP errors about known connections. Policy is not evaluated for them, and they carry bytes of their sender's choice: one passes
 * only if its sender is an end of the connection that it quotes. Table `errorEnds` is evaluated with the original tuple of that connection.
 * Without a match, the error is dropped.
 *
 * The endpoint of a Service is not in that tuple; the connection's mark has its port instead.
 */
export const errorState = { new: '-', rel: '+', trk: '+' } as const;

/** Senders of errors that are hops of a path: routers outside and nodes. */
const routers: readonly (readonly Mark[])[] = [[reg.source('gateway')], [reg.source('tunnel'), reg.sentBy('node')]];

/**
 * Steps of table `state` for ICMP errors.
 *
 * @param restored of those whose source was saved before the translation; absent: none was
 */
export function errorsOfState(first: readonly Step[], restored?: Step) {
  const standing = [...first, load(reg.verdict('standing'))];
  const passed = [...standing, goto('egressEntry')];
  return {
    ofRouters: routers.flatMap((regs) =>
      restored
        ? [
            { regs: [...regs, reg.reporterSaved('no')], steps: passed },
            { regs: [...regs, reg.reporterSaved('yes')], steps: [restored, ...passed] },
          ]
        : [{ regs, steps: passed }],
    ),
    others: [...standing, resubmitAsOpened('errorEnds')],
  };
}

function passes(match: Match): Flow {
  return { table: 'errorEnds', priority: priority.normal, match, steps: [goto('egressEntry')] };
}

/**
 * Compiles flows for errors from others than pods. Errors from the gateway pass: routers outside send them, and connection tracking knows
 * their connection. Errors of a node itself, which is a hop, pass too, and those of an endpoint on another node, which that node has
 * compared with the connection. Pure.
 */
export function errorsOfOthers(environment: NodeEnvironment): readonly Flow[] {
  const ctMarks = [ctMark.service('yes'), ctMark.receiver(environment.tunnel.ofPort)];
  return familiesOf(environment).map((payload) => ({
    ...passes({ payload, ctMarks, regs: [reg.source('tunnel')] }),
    priority: priority.higher,
  }));
}

/** Compiles flows for errors of a local pod. Pure. */
export function errorsOfPod(inPort: number, address: Ip): readonly Flow[] {
  const payload = address.family;
  // A connection mark has room for the lower 16 bits: no pod's port needs more.
  const endpoint = [ctMark.service('yes'), ctMark.receiver(inPort % 0x1_0000)];
  return [
    passes({ inPort, payload, ipSrc: address }),
    { ...passes({ inPort, payload, ipDst: address }), priority: priority.high },
    { ...passes({ inPort, payload, ctMarks: endpoint }), priority: priority.higher },
  ];
}

/**
 * Compiles flows for errors from another node's pods, about connections of that node's pods: that node decides which of them is the end.
 * Also marks packets as sent by the node itself, since connection tracking may translate them afterwards. Pure.
 */
export function errorsOfPeer(inPort: number, cidr: Cidr, sender: Mark): readonly Flow[] {
  const payload = cidr.family;
  const regs = [reg.source('tunnel'), sender];
  return [
    passes({ payload, ipSrc: cidr, regs }),
    { ...passes({ payload, ipDst: cidr, regs }), priority: priority.high },
    {
      table: 'spoofGuard',
      // Below the flow that drops neighbour discovery.
      priority: priority.above,
      match: { inPort, payload, protocol: icmpOf[payload], ipSrc: ownAddresses(cidr), regs: [sender] },
      steps: [load(reg.sentBy('node')), goto('unSnat')],
    },
  ];
}

/**
 * Compiles flows that look up ICMP errors before they are translated, because those of Services need more than other packets of known
 * connections.
 *
 * - The kernel's data path translates errors of the opening side only with an action that commits. Source: Linux 6.1
 *   net/openvswitch/conntrack.c `ovs_ct_nat`.
 * - Where an IPv6 translation changes the source, the userspace connection tracking of Open vSwitch writes a TCP or UDP checksum into the
 *   error itself: into the address that it quotes, or into its MTU. So the error gets that source before. Source: lib/packets.c
 *   `packet_update_csum128`, called for the protocol of the connection, not of the packet. IPv4 uses the packet's own protocol. Table
 *   `snat` does the same for its zone.
 * - A translation gives every error the address of the Service as its source. Time exceeded of a router or node keeps its own: the address
 *   of a hop is what it reports.
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
    const toOpener = [...(payload === 'ipv6' ? [{ do: 'setIpSrcToOpened' } as const] : []), translate(false)];
    const ofHops = routers.map((regs): Flow => {
      const flow = ofService('+', { do: 'saveIpSrc', family: payload }, load(reg.reporterSaved('yes')), ...toOpener);
      const exceeded = { protocol: icmpOf[payload], icmpType: timeExceeded[payload] };
      return { ...flow, priority: priority.high, match: { ...flow.match, ...exceeded, regs } };
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
      ...ofHops,
      ...(payload === 'ipv6' ? [ofService('+', ...toOpener)] : []),
      { table: 'errorTranslation', priority: priority.low, match: { payload }, steps: [translate(false)] },
    ];
  });
}

/** Types of destination unreachable, packet too big, time exceeded and parameter problem. Source: RFC 792; RFC 4443 section 3. */
const errorTypes: Readonly<Record<Family, readonly number[]>> = { ipv4: [3, 11, 12], ipv6: [1, 2, 3, 4] };
const timeExceeded: Readonly<Record<Family, number>> = { ipv4: 11, ipv6: 3 };

/**
 * Addresses of a node's pod network that no pod has: the first (`externalSource`), which an error gets that the node sends on for a router or a client
 * outside, and the second, the gateway's.
 */
function ownAddresses({ family, network }: Cidr): Cidr {
  return cidrOf(network, addressBits(family) - 1);
}

const icmpOf: Readonly<Record<Family, 'icmp' | 'icmp6'>> = { ipv4: 'icmp', ipv6: 'icmp6' };
