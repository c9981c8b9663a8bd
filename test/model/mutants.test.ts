import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { addressBits, cidrAddress, cidrOf, type Ip } from '../../src/base/net/ip.ts';
import { ctMark, reg } from '../../src/dataplane/pipeline/fields.ts';
import { type Flow, type Match, priority, type Step } from '../../src/dataplane/pipeline/flow.ts';
import type { Mark } from '../../src/dataplane/pipeline/registers.ts';
import { serviceNextHop } from '../../src/dataplane/pipeline/well-known.ts';
import { conversations } from './conversation.ts';
import { forgeries } from './forgeries.ts';
import { type ModelOptions, modelOracle } from './oracle.ts';
import { compileScene, exampleScene, withDirectPeers } from './scene.ts';

type Datapath = ModelOptions['datapath'];

/** Undefined: the flow is omitted. */
type Mutation = (flow: Flow) => Flow | undefined;

const without =
  (test: (flow: Flow) => boolean): Mutation =>
  (flow) =>
    test(flow) ? undefined : flow;
const unmatched =
  (test: (flow: Flow) => boolean, field: keyof Match): Mutation =>
  (flow) => {
    const { [field]: _, ...match } = flow.match;
    return test(flow) ? { ...flow, match } : flow;
  };
const steps =
  (test: (flow: Flow) => boolean, change: (steps: readonly Step[]) => readonly Step[]): Mutation =>
  (flow) =>
    test(flow) ? { ...flow, steps: change(flow.steps) } : flow;

const marks = (flow: Flow, wanted: Mark): boolean =>
  [...(flow.match.ctMarks ?? []), ...(flow.match.regs ?? [])].some((mark) => JSON.stringify(mark) === JSON.stringify(wanted));
const step = (flow: Flow, kind: Step['do']): boolean => flow.steps.some((each) => each.do === kind);
const isExternal = (flow: Flow): boolean => marks(flow, reg.scope('external'));
const drops = ({ steps: { length } }: Flow): boolean => length === 0;
const isOfPeer = ({ inPort, ipSrc }: Match): boolean => inPort === exampleScene.node.tunnel.ofPort && ipSrc !== undefined;
/** Removes flows as if the first addresses of the network were unused. */
const withoutGateway = (flow: Flow): Flow => {
  const { ipSrc } = flow.match;
  if (!ipSrc || !('prefixLength' in ipSrc)) return flow;
  const last = cidrAddress(ipSrc, 1n << BigInt(addressBits(ipSrc.family) - ipSrc.prefixLength - 1));
  return { ...flow, match: { ...flow.match, ipSrc: cidrOf(last, ipSrc.prefixLength + 1) } };
};
const isForgeryGuard = (flow: Flow): boolean => flow.table === 'route' && flow.match.portDst === exampleScene.node.tunnel.port;
const isTranslation = ({ steps }: Flow): boolean => steps.some((step) => step.do === 'ct' && step.nat?.kind === 'dst');

/** Plausible bugs. Each changes the outcome of some packet. */
const mutants: Readonly<Record<string, Mutation>> = {
  'takes tagged frames': without(({ match }) => match.vlan !== undefined),
  'does not check the sender MAC of ARP': unmatched(({ table }) => table === 'spoofGuard', 'arpSha'),
  'does not check the sender address of ARP': unmatched(({ table }) => table === 'spoofGuard', 'arpSpa'),
  'does not check the Ethernet source': unmatched(({ table, match }) => table === 'spoofGuard' && match.payload === 'ipv4', 'ethSrc'),
  'lets a pod answer for every IPv6 address': unmatched(({ table, match }) => table === 'spoofGuard' && match.icmpType === 136, 'ndTarget'),
  'lets a pod detect duplicates of others’ addresses': unmatched(
    ({ table, match }) => table === 'spoofGuard' && match.icmpType === 135 && match.ipSrc !== undefined,
    'ndTarget',
  ),
  'believes link-layer options': unmatched(({ table }) => table === 'spoofGuard', 'ndTll'),
  'lets probes without the option end': without(({ match }) => match.ndSll === 'absent'),
  'takes questions from any Ethernet source': unmatched(({ table, match }) => table === 'spoofGuard' && match.icmpType === 135, 'ethSrc'),
  'takes tunnel packets of unknown peers': unmatched(({ table }) => table === 'classify', 'tunSrc'),
  'lets a peer send as anybody': unmatched(({ table, match }) => table === 'spoofGuard' && isOfPeer(match), 'ipSrc'),
  'lets a peer send as the pods of another': unmatched(({ table, match }) => table === 'spoofGuard' && isOfPeer(match), 'regs'),
  'takes nothing from gateways of peers': (flow) => (flow.table === 'spoofGuard' && isOfPeer(flow.match) ? withoutGateway(flow) : flow),
  'forgets one of a peer’s addresses': without(({ match }) => match.tunSrc?.family === 'ipv6'),
  'lets pods forge tunnel packets': without((flow) => isForgeryGuard(flow) && marks(flow, reg.source('pod'))),
  'lets peers forge tunnel packets': without((flow) => isForgeryGuard(flow) && marks(flow, reg.source('tunnel'))),
  'looks for forged packets before pods have been found': (flow) => (isForgeryGuard(flow) ? { ...flow, priority: 240 } : flow),
  'relays what a peer sends to the outside': without((flow) => flow.table === 'route' && drops(flow) && marks(flow, reg.source('tunnel'))),
  'sends multicast to the node': without(
    ({ table, match }) => table === 'route' && match.ipDst?.text !== undefined && /^(224|ff|255)/.test(match.ipDst.text),
  ),
  'forgets that a second packet to a Service is routed': steps(
    (flow) => flow.table === 'state' && marks(flow, ctMark.service('yes')) && flow.match.ctState?.new === '+',
    (all) => all.filter((step) => step.do !== 'load'),
  ),
  'forgets that a Service connection is routed': steps(
    (flow) => flow.table === 'state' && marks(flow, ctMark.service('yes')) && flow.match.ctState?.new === '-',
    (all) => all.filter((step) => step.do !== 'load'),
  ),
  'lets the second packet to a Service go past the choice': steps(
    (flow) => flow.table === 'state' && marks(flow, ctMark.service('yes')) && flow.match.ctState?.new === '+',
    (all) => all.map((step) => (step.do === 'goto' ? { do: 'goto', table: 'egressEntry' } : step)),
  ),
  'does not remember Service connections': steps(isTranslation, (all) =>
    all.map((step) => (step.do === 'ct' ? { ...step, exec: step.exec.filter((exec) => exec.do !== 'mark') } : step)),
  ),
  'does not commit': without((flow) => flow.table === 'commit' && flow.priority > 0),
  'never lets in what it committed for a Service': without((flow) => flow.table === 'commit' && marks(flow, ctMark.unadmitted('yes'))),
  'never lets in what it translated the source of': steps(
    ({ table }) => table === 'snatMark',
    (all) =>
      all.map((each) =>
        each.do === 'ct' ? { ...each, exec: each.exec.filter((exec) => exec.do !== 'mark' || exec.mark.field !== 'unadmitted') } : each,
      ),
  ),
  'bars a connection that was let in, at its second packet': steps(
    (flow) => flow.table === 'state' && marks(flow, ctMark.unadmitted('no')),
    (all) => all.map((each) => (each.do === 'load' && each.mark.field === 'unsettled' ? { do: 'load', mark: reg.unsettled('yes') } : each)),
  ),
  'leaves a connection barred whose second packet was looked up before the first was committed': (flow) =>
    flow.table === 'snatMark' && marks(flow, ctMark.unadmitted('yes'))
      ? { ...flow, match: { ...flow.match, ctState: { ...flow.match.ctState, new: '-' } } }
      : flow,
  'forgets that the gateway sends': without((flow) => flow.table === 'egressEntry' && marks(flow, reg.source('gateway'))),
  'forgets that peers send': without((flow) => flow.table === 'egressEntry' && marks(flow, reg.source('tunnel'))),
  'forgets that the gateway receives': without((flow) => flow.table === 'ingressEntry' && marks(flow, reg.destination('gateway'))),
  'forgets that peers receive': without((flow) => flow.table === 'ingressEntry' && marks(flow, reg.destination('tunnel'))),
  'forgets that a pod sends': without(({ table, match }) => table === 'egressEntry' && match.inPort !== undefined),
  'forgets that a pod receives': without(
    ({ table, match }) => table === 'ingressEntry' && match.regs?.some(({ field }) => field === 'outPort') === true,
  ),
  'does not translate the port': steps(isTranslation, (all) =>
    all.map((step) => (step.do === 'ct' && step.nat?.kind === 'dst' ? { ...step, nat: { kind: 'dst', ip: step.nat.ip } } : step)),
  ),
  'does not translate replies': steps(
    ({ table }) => table === 'track',
    (all) => all.map((step) => (step.do === 'ct' ? withoutNat(step) : step)),
  ),
  'keeps the source of a pod that talks to itself': without(({ table, match }) => table === 'snatMark' && match.ipSrc !== undefined),
  'keeps the source of a node that talks to itself': without((flow) => flow.table === 'snatMark' && marks(flow, reg.source('gateway'))),
  'translates only the first packet of a hairpin connection': without(({ table, match }) => table === 'snat' && match.ctState?.rpl === '-'),
  'does not translate replies of hairpin connections': without(
    ({ table, match }) => table === 'unSnat' && match.ipDst?.text === serviceNextHop.ipv4.text,
  ),
  'sends hairpin packets to where they came from by number': without(
    (flow) => flow.table === 'output' && marks(flow, ctMark.hairpin('yes')),
  ),
  'counts no hop': steps(
    ({ table }) => table === 'ttl',
    (all) => all.filter((step) => step.do !== 'decTtl'),
  ),
  'drops packets whose TTL ends without an answer': without(({ table, match }) => table === 'ttl' && match.ttl === 1),
  'outputs packets whose TTL ended': without((flow) => flow.table === 'output' && marks(flow, reg.expired('yes'))),
  'counts the node’s hop': (flow) => (flow.table === 'ttl' && flow.priority > 0 ? { ...flow, steps: withHop(flow.steps) } : flow),
  'shows the pod’s MAC to the next network': steps(
    ({ table }) => table === 'ttl',
    (all) => all.filter((step) => step.do !== 'setEthSrc'),
  ),
  'leaves the tunnel’s source to the routing table': steps(
    ({ table }) => table === 'tunnel',
    (all) => all.filter((step) => step.do !== 'setTunSrc'),
  ),
  'sends what is for a Service that does not exist to the node': without(
    ({ table, match }) => table === 'route' && exampleScene.node.serviceCidrs.some(({ text }) => text === match.ipDst?.text),
  ),
  'lets peers ask Services': without((flow) => flow.table === 'serviceEntry' && flow.priority > 0),
  'drops what is for empty Services': without(({ steps: [first] }) => first?.do === 'toAgent'),
  'answers ARP for its peers’ gateways by silence': without(({ steps: [first] }) => first?.do === 'answerArp'),
  'ignores loadBalancerSourceRanges': without(
    (flow) => flow.table === 'sourceRanges' && flow.steps.some((each) => each.do === 'goto' && each.table === 'sourceRangeSets'),
  ),
  'refuses all clients of a load balancer that has source ranges': without(
    ({ table, match }) => table === 'sourceRangeSets' && match.ipSrc !== undefined,
  ),
  'sends external clients to other nodes if the policy is Local': without((flow) => flow.table === 'balance' && isExternal(flow)),
  'refuses what only other nodes serve': steps(
    (flow) => flow.table === 'balance' && drops(flow),
    () => [{ do: 'toAgent', reason: 'noEndpoint' }],
  ),
  'treats pods that come through the node as external': without(
    ({ table, match }) => table === 'serviceEntry' && match.ipSrc !== undefined && 'network' in match.ipSrc,
  ),
  'shows external clients to endpoints of other nodes': without((flow) => flow.table === 'snatMark' && isExternal(flow)),
  'hides all clients from endpoints of other nodes': (flow) =>
    flow.table === 'snatMark' && isExternal(flow) ? { ...flow, match: { ...flow.match, regs: [reg.destination('tunnel')] } } : flow,
  'hides external clients behind the gateway’s address, whose ports are the node’s': steps(
    ({ table }) => table === 'snat',
    (all) =>
      all.map((each) =>
        each.do === 'ct' && each.nat?.kind === 'src' ? { ...each, nat: { ...each.nat, ip: gatewayOf(each.nat.ip) } } : each,
      ),
  ),
  'takes new connections from addresses that no client has': without(
    (flow) => flow.table === 'serviceEntry' && drops(flow) && flow.match.ipSrc !== undefined,
  ),
  'does not translate answers of peers to external clients back': without(
    (flow) => flow.table === 'unSnat' && marks(flow, reg.source('tunnel')),
  ),
  'answers a pod past its node, which it asked through': without((flow) => flow.table === 'route' && flow.priority === priority.override),
  'lets answers be tunnel packets': without(
    (flow) => flow.table === 'route' && drops(flow) && flow.match.ctMarks !== undefined && flow.match.portDst !== undefined,
  ),
  'lets pods use the address of node ports': (flow) =>
    flow.table === 'balance' && marks(flow, reg.source('gateway'))
      ? { ...flow, match: { ...flow.match, regs: (flow.match.regs ?? []).filter(({ field }) => field !== 'source') } }
      : flow,
  'sends a pod that asked itself through its node back there': unmatched(
    (flow) => flow.table === 'output' && marks(flow, ctMark.hairpin('yes')),
    'regs',
  ),
  'has errors about what endpoints answer translated as other packets are': without(
    ({ table, match }) => table === 'errorTranslation' && match.ctState?.rpl === '-',
  ),
  'leaves the source of errors to the tracker': steps(
    ({ table }) => table === 'errorTranslation' || table === 'snat',
    (all) => all.filter((each) => each.do !== 'setIpSrc' && each.do !== 'setIpSrcToOpened'),
  ),
  'takes errors of a pod about connections of others': unmatched(
    ({ table, match }) => table === 'errorEnds' && match.inPort !== undefined,
    'ipSrc',
  ),
  'takes no errors of endpoints': without(({ table, match }) => table === 'errorEnds' && match.ctMarks !== undefined),
  'forgets which endpoint a client has': steps(
    (flow) => step(flow, 'learnChoice'),
    (all) => all.filter((each) => each.do !== 'learnChoice'),
  ),
};

const directScene = withDirectPeers(exampleScene, 'all');
const isDirect = (flow: Flow): boolean => flow.steps.some((each) => each.do === 'load' && each.mark.field === 'direct');
const isAboveDirect = ({ table, priority: level }: Flow): boolean => table === 'route' && level === priority.aboveHighest;

const isReturn = (flow: Flow): boolean => flow.table === 'output' && marks(flow, ctMark.hairpin('no')) && marks(flow, ctMark.snat('yes'));

/** Plausible bugs of a node that reaches its peers without a tunnel. */
const directMutants: Readonly<Record<string, Mutation>> = {
  'sends nothing to direct peers': without(isDirect),
  'does not mark packets as direct': steps(isDirect, (all) => all.filter((each) => each.do !== 'load' || each.mark.field !== 'direct')),
  'sends direct packets to the tunnel': steps(isDirect, (all) =>
    all.map((each) => (each.do === 'load' && each.mark.field === 'destination' ? { do: 'load', mark: reg.destination('tunnel') } : each)),
  ),
  // Either of two flows prevents it.
  'returns packets for direct peers to the kernel, which sent them': (flow) => {
    if (isAboveDirect(flow) && drops(flow) && marks(flow, reg.source('gateway'))) return undefined;
    const { ctMarks: _, ...match } = flow.match;
    return isReturn(flow) ? { ...flow, match } : flow;
  },
  'passes packets from one peer to another': without((flow) => isAboveDirect(flow) && marks(flow, reg.source('tunnel'))),
  'moves connections that began in the tunnel': without((flow) => isAboveDirect(flow) && marks(flow, ctMark.snat('no'))),
  'treats endpoints of direct peers like the node’s own': without((flow) => flow.table === 'snatMark' && marks(flow, reg.direct('yes'))),
  'does not translate direct answers back': without((flow) => flow.table === 'unSnat' && marks(flow, reg.source('gateway'))),
  'does not return packets to their input port': without((flow) => isReturn(flow)),
};

function gatewayOf(ip: Ip): Ip {
  const { addresses } = exampleScene.node.gateway;
  return exampleScene.node.podCidrs.some(({ network }) => network.text === ip.text)
    ? (addresses.find(({ family }) => family === ip.family) ?? ip)
    : ip;
}

function withoutNat(step: Extract<Step, { do: 'ct' }>): Step {
  const { nat: _, ...rest } = step;
  return rest;
}

function withHop(all: readonly Step[]): readonly Step[] {
  return all.some(({ do: what }) => what === 'decTtl') ? all : [{ do: 'decTtl' }, ...all];
}

/** The first error of this pipeline; undefined if there is none. The seed is fixed: this tests the oracle, not the pipeline. */
async function complaint(mutation: Mutation, scene = exampleScene): Promise<string | undefined> {
  const { flows, groups } = compileScene(scene);
  const mutated = { flows: flows.flatMap((flow) => mutation(flow) ?? []), groups };
  expect(mutated.flows).not.toEqual(flows);
  const oracle = (datapath: Datapath, choices: readonly number[] = [0]) => modelOracle(scene, { datapath, choices, compiled: mutated });
  const datapaths = fc.constantFrom<Datapath>('userspace', 'kernel');
  const talk = fc.asyncProperty(conversations(scene), fc.array(fc.nat(), { minLength: 2 }), datapaths, (conversation, choices, datapath) =>
    oracle(datapath, choices).follow(conversation),
  );
  const lie = fc.asyncProperty(forgeries(scene), async (arrival) => void (await oracle('userspace').receive(arrival)));
  for (const [property, numRuns] of [
    [lie, 2500],
    [talk, 4000],
  ] as const) {
    const { failed, errorInstance } = await fc.check(property as fc.IAsyncProperty<unknown>, { seed: 7, numRuns, endOnFailure: true });
    if (failed) return String(errorInstance);
  }
  return undefined;
}

describe('the oracle detects a pipeline that', () => {
  it.each(Object.entries(mutants))('%s', async (_, mutation) => {
    expect(await complaint(mutation)).toMatch(/happened|undefined which|never ends/);
  });
});

describe('the oracle detects a pipeline with direct peers that', () => {
  it.each(Object.entries(directMutants))('%s', async (_, mutation) => {
    expect(await complaint(mutation, directScene)).toMatch(/happened|undefined which|never ends/);
  });
});
