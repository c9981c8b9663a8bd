import { parseCidr, parseIp } from '../../src/base/net/ip.ts';
import { compileSubject, entriesOfOthers } from '../../src/dataplane/compile/compile-entry.ts';
import { compileTables } from '../../src/dataplane/compile/compile-tables.ts';
import { compileVerdicts } from '../../src/dataplane/compile/compile-verdict.ts';
import type { NodeEnvironment } from '../../src/dataplane/compile/environment.ts';
import { ctMark, reg } from '../../src/dataplane/pipeline/fields.ts';
import { type Flow, goto, load, type MatchProtocol, priority } from '../../src/dataplane/pipeline/flow.ts';
import { type PipelineTableName, tables } from '../../src/dataplane/pipeline/tables.ts';
import { podOfPorts, serviceNextHop } from '../../src/dataplane/pipeline/well-known.ts';
import { ConnectionTracker } from '../../src/dataplane/switch-model/connection-tracker.ts';
import { echoRequest, type Packet, tupleOf } from '../../src/dataplane/switch-model/packet.ts';
import { SwitchModel, type TrackedBefore } from '../../src/dataplane/switch-model/switch-model.ts';
import type { PolicyPacket } from '../../src/policy/matrix/interpret.ts';
import type { PolicyMatrix } from '../../src/policy/matrix/matrix.ts';
import { exampleNode } from '../support/example-node.ts';
import type { Arrival } from './conversation.ts';
import type { WrittenPolicy } from './policy-flow-run.ts';

/** The proven node of `random-policies.ts`. */
const node: NodeEnvironment = {
  ...exampleNode,
  gateway: { ...exampleNode.gateway, addresses: [parseIp('10.1.0.1'), parseIp('fd00:1::1')] },
  podCidrs: [parseCidr('10.1.0.0/24'), parseCidr('fd00:1::/64')],
  transport: [parseIp('192.168.0.1'), parseIp('fd00:77::1')],
  blindToSctp: true,
};
const own = new Set([...node.gateway.addresses, ...node.transport].map(({ text }) => text));
/** Addresses whose packets leave towards other nodes: they return to no pod of this one. */
const unsent = new Set(node.podCidrs.map(({ network }) => network.text));
const protocols: Readonly<Record<string, MatchProtocol>> = { TCP: 'tcp', UDP: 'udp', SCTP: 'sctp', GRE: 'gre' };
/** Input ports of packets in the tables of ingress, by their origin. */
const arrivals = { gateway: 10_000, external: 20_000, itself: 30_000 };

/** The tables of policy, with the local pods: their flows, and the verdicts of the model of a switch. Packets start in the entry tables. */
export class PolicySwitch {
  readonly flows: readonly Flow[];
  /** Undefined for packets that reach no local pod by its tables: its own packets to itself, and addresses that send nothing. */
  readonly verdict: (packet: PolicyPacket) => 'allow' | 'deny' | undefined;
  readonly #ports = new Map<string, number>();
  readonly #matrix: PolicyMatrix;

  constructor(matrix: PolicyMatrix, { flows, byOwner }: WrittenPolicy) {
    this.#matrix = matrix;
    for (const pod of matrix.subjects.keys()) this.#ports.set(pod, podOfPorts.first + this.#ports.size);
    const subjects = [...matrix.subjects].flatMap(([pod, { addresses }]): readonly Flow[] => {
      const classes = flows.classesOf(pod);
      const subject = { ofPort: this.portOf(pod), addresses: addresses.map(parseIp) };
      if (classes === 'closed') return compileSubject({ ...subject, ingress: 'closed', egress: 'closed' });
      return compileSubject(classes === 'free' ? subject : { ...subject, ...classes });
    });
    this.flows = [
      ...compileTables().filter(({ table }) => isOfPolicy(table)),
      ...entriesOfOthers(node),
      ...compileVerdicts(node),
      ...subjects,
      ...[...byOwner.values()].flat(),
      ...[...this.#ports.values()].flatMap(arrivalsOf),
    ];
    this.verdict = this.verdictBy(this.flows);
  }

  /** `verdict` of a switch with other flows. */
  verdictBy(flows: readonly Flow[]): (packet: PolicyPacket) => 'allow' | 'deny' | undefined {
    const tracker = new ConnectionTracker('userspace');
    const model = new SwitchModel({ flows, groups: [], tracker, choose: () => 0, tunnelPort: node.tunnel.ofPort });
    return (packet) => {
      if (packet.throughService) {
        const own = this.#arrivalThroughService(packet);
        return own && endOf(packet, model.receive(own.inPort, own.packet, own.tracked).tables);
      }
      const arrival = this.arrivalOf(packet);
      return arrival && endOf(packet, model.receive(arrival.inPort, arrival.packet).tables);
    };
  }

  /** Returns a check whether the flows show a denied packet to the agent, which may answer it. */
  refusals(): (packet: PolicyPacket) => boolean {
    const tracker = new ConnectionTracker('userspace');
    const model = new SwitchModel({ flows: this.flows, groups: [], tracker, choose: () => 0, tunnelPort: node.tunnel.ofPort });
    const opening: TrackedBefore = { ctState: new Set(['trk', 'new']), ctMark: 0 };
    return (packet) => {
      const arrival = this.arrivalOf(packet);
      return arrival !== undefined && model.receive(arrival.inPort, arrival.packet, opening).tables.at(-1) === 'refusals';
    };
  }

  /** Reports whether `verdict` knows such packets. */
  reaches(packet: PolicyPacket): boolean {
    return (packet.throughService ? this.#arrivalThroughService(packet) : this.arrivalOf(packet)) !== undefined;
  }

  /** Arrival of a packet of a pod to itself, which a Service has translated: connection tracking has seen it. */
  #arrivalThroughService(packet: PolicyPacket): (Arrival & { readonly tracked: TrackedBefore }) | undefined {
    const sent = this.arrivalOf({ ...packet, direction: 'egress', throughService: false });
    if (!sent) return undefined;
    const ctState = new Set(['trk', 'new'] as const);
    if (packet.direction === 'egress') return { ...sent, tracked: { ctState, ctMark: ctMark.service('yes').value } };
    const original = tupleOf(sent.packet);
    const received = { ...sent.packet, ipSrc: serviceNextHop[parseIp(packet.address).family] };
    const tracked = { ctState, ctMark: ctMark.hairpin('yes').value, ...(original && { original }) };
    return { inPort: arrivals.itself + sent.inPort, packet: received, tracked };
  }

  /** Arrival of the packet in these tables; undefined as for `verdict`, and for packets that a Service returned to their sender. */
  arrivalOf({ direction, pod, address, protocol, port, masqueraded, throughService }: PolicyPacket): Arrival | undefined {
    if (throughService) return undefined;
    const peer = parseIp(address);
    const isIngress = direction === 'ingress';
    const addresses = this.#matrix.subjects.get(pod)?.addresses ?? [];
    const mine = addresses.map(parseIp).find(({ family }) => family === peer.family);
    if (!mine || (isIngress && (addresses.includes(peer.text) || unsent.has(peer.text)))) return undefined;
    // The node knows its own addresses, also after its Node is deleted.
    if (isIngress && own.has(peer.text) && !this.#matrix.ownNode.has(peer.text)) return undefined;
    const icmp = peer.family === 'ipv4' ? 'icmp' : 'icmp6';
    const packet: Packet = {
      ethSrc: node.gateway.mac,
      ethDst: node.gateway.mac,
      payload: peer.family,
      protocol: protocols[protocol] ?? icmp,
      ipSrc: isIngress ? peer : mine,
      ipDst: isIngress ? mine : peer,
      ttl: 64,
      ...(port === undefined ? {} : { portSrc: 40_000, portDst: port }),
      ...(protocol === 'ICMP' ? { icmpType: echoRequest[icmp], icmpId: 1 } : {}),
    };
    const from = own.has(peer.text) && !masqueraded ? arrivals.gateway : arrivals.external;
    const ofPort = this.portOf(pod);
    return { inPort: isIngress ? from + ofPort : ofPort, packet };
  }

  /** OpenFlow port of a local pod. */
  portOf(pod: string): number {
    return this.#ports.get(pod) ?? 0;
  }
}

/** Fate of a packet that has visited these tables, by the last of them. */
export function endOf({ direction }: PolicyPacket, visited: readonly PipelineTableName[]): 'allow' | 'deny' {
  return visited.at(-1) === (direction === 'ingress' ? 'commit' : 'route') ? 'allow' : 'deny';
}

function isOfPolicy(table: Flow['table']): boolean {
  const { id } = tables[table];
  return (id >= tables.egressEntry.id && id < tables.route.id) || (id >= tables.ingressEntry.id && id < tables.commit.id);
}

/** Actions of the tables before those of policy. */
function arrivalsOf(ofPort: number): readonly Flow[] {
  const at = (inPort: number, ...steps: Flow['steps']): Flow => ({
    table: 'classify',
    priority: priority.normal,
    match: { inPort },
    steps,
  });
  const toPod = [load(reg.outPort(ofPort)), load(reg.destination('pod')), goto('ingressEntry')];
  return [
    at(ofPort, load(reg.source('pod')), goto('egressEntry')),
    at(arrivals.gateway + ofPort, load(reg.source('gateway')), ...toPod),
    at(arrivals.itself + ofPort, load(reg.source('pod')), ...toPod),
    at(arrivals.external + ofPort, load(reg.source('external')), ...toPod),
  ];
}
