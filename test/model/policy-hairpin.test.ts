import { describe, expect, it } from 'vitest';
import { type Family, parseIp } from '../../src/base/net/ip.ts';
import { compileSubject } from '../../src/dataplane/compile/compile-entry.ts';
import type { Flow } from '../../src/dataplane/pipeline/flow.ts';
import { nodePortAddress, serviceNextHop } from '../../src/dataplane/pipeline/well-known.ts';
import { ConnectionTracker } from '../../src/dataplane/switch-model/connection-tracker.ts';
import { type Output, SwitchModel } from '../../src/dataplane/switch-model/switch-model.ts';
import { PolicyEngine } from '../../src/policy/engine/policy-engine.ts';
import type { ClusterNetworkPolicyObject, ClusterRuleObject, NetworkPolicyObject } from '../../src/policy/verify/reference/objects.ts';
import { judge } from '../../src/policy/verify/reference/reference-verdict.ts';
import { clusterPolicyObject } from '../support/cluster-policy-cases.ts';
import { exampleNode } from '../support/example-node.ts';
import { exampleCluster, policyObject } from '../support/policy-cluster.ts';
import { sceneService } from '../support/scene-service.ts';
import { type Arrival, answerTo, nextOf } from './conversation.ts';
import { WrittenPolicy } from './policy-flow-run.ts';
import { objectSet, provenNode, put } from './policy-proof.ts';
import { exampleScene, type Scene, wantedByOwner } from './scene.ts';

/*
 * A pod that reaches itself through a Service: cluster policies of both tiers decide, at both ends; NetworkPolicies do not. The whole
 * pipeline decides about packets, and the reference about connections.
 */

const [pod] = exampleScene.pods;
if (!pod) throw new Error('the example has pods');
const [servicePort, targetPort, nodePort] = [80, 8080, 30_900];
const clusterIps = { ipv4: '10.96.0.77', ipv6: 'fd00:96::77' } as const;
const protocols = ['tcp', 'udp'] as const;
type Protocol = (typeof protocols)[number];

const own = (family: Family): string => pod.addresses.find((ip) => ip.family === family)?.text ?? '';
const selfServices = (['ipv4', 'ipv6'] as const).flatMap((family) =>
  protocols.map((protocol) =>
    sceneService({
      name: `self-${family}-${protocol}`,
      protocol: protocol === 'tcp' ? 'TCP' : 'UDP',
      clusterIp: clusterIps[family],
      port: servicePort,
      nodePort,
      endpoints: [`${own(family)} ${targetPort} n1`],
    }),
  ),
);
const scene: Scene = { ...exampleScene, services: selfServices };

interface Policies {
  readonly cluster: readonly ClusterNetworkPolicyObject[];
  readonly network?: readonly NetworkPolicyObject[];
}

/** Bridge of the model, with the connections of its data path, whose policies change. */
class SelfBridge {
  readonly #tracker: ConnectionTracker;
  readonly #change: (flow: Flow) => readonly Flow[];
  #model: SwitchModel | undefined;

  constructor(datapath: 'userspace' | 'kernel', change: (flow: Flow) => readonly Flow[] = (flow) => [flow]) {
    this.#tracker = new ConnectionTracker(datapath);
    this.#change = change;
  }

  become({ cluster, network = [] }: Policies): void {
    const engine = new PolicyEngine(provenNode);
    const objects = { ...exampleCluster, networkPolicies: network, clusterNetworkPolicies: cluster };
    for (const each of objectSet(objects).values()) put(engine, each);
    const written = new WrittenPolicy(engine);
    written.update();
    const classes = written.flows.classesOf('shop/db');
    if (classes === 'closed') throw new Error('the pod is blocked');
    const { ofPort, addresses } = pod as NonNullable<typeof pod>;
    const subject = compileSubject({ ofPort, addresses, ...(classes === 'free' ? {} : classes) });
    const wanted = [...wantedByOwner(scene)].filter(([owner]) => owner !== `subject/${ofPort}`).map(([, each]) => each);
    const flows = [...wanted.flatMap((each) => each.flows), ...subject, ...[...written.byOwner.values()].flat()];
    this.#model = new SwitchModel({
      flows: flows.flatMap(this.#change),
      groups: wanted.flatMap(({ groups }) => groups),
      tracker: this.#tracker,
      choose: () => 0,
      tunnelPort: exampleNode.tunnel.ofPort,
    });
  }

  receive({ inPort, packet }: Arrival): readonly Output[] {
    return this.#model?.receive(inPort, packet).outputs ?? [];
  }
}

/** A pod's first packet to the Service of which it is the endpoint: to its cluster IP, or through the node to its node port. */
function opening(family: Family, protocol: Protocol, by: 'cluster IP' | 'node port' = 'cluster IP'): Arrival {
  const isClusterIp = by === 'cluster IP';
  const { ofPort, mac } = pod as NonNullable<typeof pod>;
  return {
    inPort: isClusterIp ? ofPort : exampleNode.gateway.ofPort,
    packet: {
      ethSrc: isClusterIp ? mac : exampleNode.gateway.mac,
      ethDst: isClusterIp ? exampleNode.gateway.mac : mac,
      payload: family,
      protocol,
      ipSrc: parseIp(own(family)),
      ipDst: isClusterIp ? parseIp(clusterIps[family]) : nodePortAddress[family],
      ttl: 64,
      portSrc: 40_000,
      portDst: isClusterIp ? servicePort : nodePort,
      ...(protocol === 'tcp' ? { tcpFlags: 'syn' as const } : {}),
    },
  };
}

/** Reports whether the reference allows the pod to reach itself. */
function allows(
  { cluster, network = [] }: Policies,
  family: Family,
  protocol: Protocol,
  ends: readonly ('egress' | 'ingress')[] = ['egress', 'ingress'],
): boolean {
  const judged = judge(
    { ...exampleCluster, networkPolicies: network, clusterNetworkPolicies: cluster },
    { from: own(family), to: own(family), protocol: protocol.toUpperCase(), port: targetPort, throughService: true },
  );
  return ends.every((end) => judged[end]?.verdict === 'allow');
}

const everything = { namespaces: {} } as const;
const db = { pods: { namespaceSelector: {}, podSelector: { matchLabels: { app: 'db' } } } } as const;
const api = { pods: { namespaceSelector: {}, podSelector: { matchLabels: { app: 'api' } } } } as const;
const port = (number: number) => [{ tcp: { destinationPort: { number } } }, { udp: { destinationPort: { number } } }];
const rule = (action: ClusterRuleObject['action'], ...peers: NonNullable<ClusterRuleObject['to']>) => ({ action, from: peers, to: peers });
const into = (tier: 'Admin' | 'Baseline', ...rules: readonly ClusterRuleObject[]): ClusterNetworkPolicyObject =>
  clusterPolicyObject(`in-${tier}`.toLowerCase(), { tier, ingress: rules.map(({ to: _, ...each }) => each) });
const outOf = (tier: 'Admin' | 'Baseline', ...rules: readonly ClusterRuleObject[]): ClusterNetworkPolicyObject =>
  clusterPolicyObject(`out-${tier}`.toLowerCase(), { tier, egress: rules.map(({ from: _, ...each }) => each) });
const isolated = policyObject('shop/isolated', {
  podSelector: { matchLabels: { app: 'db' } },
  policyTypes: ['Ingress', 'Egress'],
});
const deny: ClusterRuleObject = rule('Deny', everything);

const cases: readonly (readonly [name: string, Policies, 'allow' | 'deny'])[] = [
  ['no policy', { cluster: [] }, 'allow'],
  ['a NetworkPolicy that allows nothing', { cluster: [], network: [isolated] }, 'allow'],
  ['Deny in ingress of the Admin tier', { cluster: [into('Admin', deny)] }, 'deny'],
  ['Deny in egress of the Admin tier', { cluster: [outOf('Admin', deny)] }, 'deny'],
  ['Deny in ingress of the Baseline tier', { cluster: [into('Baseline', deny)] }, 'deny'],
  ['Deny in egress of the Baseline tier', { cluster: [outOf('Baseline', deny)] }, 'deny'],
  ['Deny in the Baseline tier, of a pod that a NetworkPolicy isolates', { cluster: [into('Baseline', deny)], network: [isolated] }, 'deny'],
  [
    'Accept in the Admin tier before Deny in the Baseline tier',
    { cluster: [into('Admin', rule('Accept', db)), into('Baseline', deny)] },
    'allow',
  ],
  [
    'Pass in the Admin tier before Deny in the Baseline tier',
    { cluster: [outOf('Admin', rule('Pass', db), deny), outOf('Baseline', deny)] },
    'deny',
  ],
  ['Pass in both tiers', { cluster: [outOf('Admin', rule('Pass', db), deny), outOf('Baseline', rule('Pass', db), deny)] }, 'allow'],
  ['Deny of the target port', { cluster: [into('Admin', { ...deny, protocols: port(targetPort) })] }, 'deny'],
  ['Deny of the port of the Service', { cluster: [outOf('Admin', { ...deny, protocols: port(servicePort) })] }, 'allow'],
  ['Deny of other pods', { cluster: [into('Admin', rule('Deny', api)), outOf('Admin', rule('Deny', api))] }, 'allow'],
  [
    'Deny of networks with the address of the pod',
    { cluster: [outOf('Admin', rule('Deny', { networks: ['10.10.0.5/32', 'fd00:10::5/128'] }))] },
    'deny',
  ],
  ['Deny of the virtual source address', { cluster: [outOf('Admin', rule('Deny', { networks: ['169.254.0.0/16'] }))] }, 'allow'],
  [
    'Deny of the own labels in egress, Accept in ingress',
    { cluster: [into('Admin', rule('Accept', db)), outOf('Admin', rule('Deny', db))] },
    'deny',
  ],
];

describe.each(['userspace', 'kernel'] as const)('on the %s data path', (datapath) => {
  describe.each(['ipv4', 'ipv6'] as const)('over %s, a pod that reaches itself through a Service', (family) => {
    it.each(cases)('with %s', (_, policies, verdict) => {
      for (const protocol of protocols) {
        const bridge = new SelfBridge(datapath);
        bridge.become(policies);
        const outputs = bridge.receive(opening(family, protocol));
        const delivered = outputs.map(({ to, packet }) => [to, packet.ipSrc?.text, packet.portDst]);
        const expected = verdict === 'allow' ? [[pod.ofPort, serviceNextHop[family].text, targetPort]] : [];
        expect([protocol, delivered, allows(policies, family, protocol)]).toEqual([protocol, expected, verdict === 'allow']);
      }
    });

    it.each([
      ['ingress', into('Admin', deny)],
      ['egress', outOf('Admin', deny)],
    ] as const)('stops when %s is denied, and continues when it is allowed again', (_, policy) => {
      for (const protocol of protocols) {
        const bridge = new SelfBridge(datapath);
        bridge.become({ cluster: [into('Admin', rule('Accept', everything)), outOf('Admin', rule('Accept', everything))] });
        const first = opening(family, protocol);
        const [received] = bridge.receive(first);
        const answer = received && answerTo(received);
        const next = nextOf({ opening: first } as Parameters<typeof nextOf>[0], true);
        const passes = (arrival: Arrival | undefined): boolean => arrival !== undefined && bridge.receive(arrival).length > 0;
        expect([protocol, passes(answer), passes(next)]).toEqual([protocol, true, true]);
        bridge.become({ cluster: [policy] });
        expect([protocol, passes(next), passes(next)]).toEqual([protocol, false, false]);
        bridge.become({ cluster: [] });
        expect([protocol, passes(next), passes(answer)]).toEqual([protocol, true, true]);
      }
    });

    it('through the node: ingress is decided as of the pod itself', () => {
      for (const [name, policies] of cases)
        for (const protocol of protocols) {
          const bridge = new SelfBridge(datapath);
          bridge.become(policies);
          const passes = bridge.receive(opening(family, protocol, 'node port')).length > 0;
          expect([name, protocol, passes]).toEqual([name, protocol, allows(policies, family, protocol, ['ingress'])]);
        }
    });
  });
});

/** Reports whether any case has another verdict on a bridge with these flows. */
function isNoticed(change: (flow: Flow) => readonly Flow[]): boolean {
  return cases.some(([, policies, verdict]) => {
    const bridge = new SelfBridge('userspace', change);
    bridge.become(policies);
    return bridge.receive(opening('ipv4', 'tcp')).length > 0 !== (verdict === 'allow');
  });
}

const isToItself = ({ table, match }: Flow): boolean =>
  (table === 'egressEntry' || table === 'ingressEntry') && match.ctMarks?.some(({ field }) => /^(service|hairpin)$/.test(field)) === true;
const ofPod = ({ match }: Flow): boolean => match.inPort === pod.ofPort || match.regs?.some(({ field }) => field === 'outPort') === true;

it.each<readonly [string, (flow: Flow) => readonly Flow[]]>([
  ['lacks the flows of egress', (flow) => (isToItself(flow) && ofPod(flow) && flow.table === 'egressEntry' ? [] : [flow])],
  ['lacks the flows of ingress', (flow) => (isToItself(flow) && ofPod(flow) && flow.table === 'ingressEntry' ? [] : [flow])],
  [
    'looks up the virtual source address',
    (flow) => [
      isToItself(flow)
        ? { ...flow, steps: flow.steps.map((step) => (step.do === 'resubmit' ? { do: 'resubmit', table: step.table } : step)) }
        : flow,
    ],
  ],
])('detects a bridge that %s', (_, change) => {
  expect([isNoticed((flow) => [flow]), isNoticed(change)]).toEqual([false, true]);
});
