import { describe, expect, it } from 'vitest';
import { ConnectionTracker } from '../../src/dataplane/switch-model/connection-tracker.ts';
import { SwitchModel } from '../../src/dataplane/switch-model/switch-model.ts';
import { PolicyEngine } from '../../src/policy/engine/policy-engine.ts';
import type { NetworkPolicyObject, PolicyObjects } from '../../src/policy/verify/reference/objects.ts';
import { namespaceObject, nodeObject, podObject, policyObject } from '../support/policy-cluster.ts';
import { WrittenPolicy } from './policy-flow-run.ts';
import { nameOf, objectSet, type PolicyObject, prove, provenNode, put, remove } from './policy-proof.ts';
import { endOf, PolicySwitch } from './policy-switch.ts';

/** Attempts to be admitted by other means than a policy's rules. */

type Labels = Readonly<Record<string, string>>;
type Spec = NetworkPolicyObject['spec'];

const ports = { TCP: [79, 80, 81], UDP: [53], SCTP: [] } as const;
const nodes = [nodeObject('n1', ['10.1.0.0/24'], ['192.168.0.1']), nodeObject('n2', ['10.2.0.0/24'], ['192.168.0.2'])];
/** Addresses of external clients, unused ones in a pod network, and of nodes. */
const outsiders = ['203.0.113.9', '10.1.0.77', '10.2.0.77', '10.1.0.1', '10.2.0.1', '192.168.0.1', '192.168.0.2'];
const inherited = ['__proto__', 'constructor', 'hasOwnProperty', 'toString'];

/** Parsed from JSON, as from an API server: a key may be one that a literal cannot have. */
function labelled(key: string, value: string): Labels {
  return JSON.parse(`{${JSON.stringify(key)}:${JSON.stringify(value)}}`) as Labels;
}

function isolating(ingress: Spec['ingress'] & {}, podSelector: Spec['podSelector'] = {}): Spec {
  return { podSelector, policyTypes: ['Ingress'], ingress };
}

/** Engine, rows and switch of a node, and the reference's verdict for the same objects. */
class Oracles {
  readonly #engine = new PolicyEngine(provenNode);
  readonly #written = new WrittenPolicy(this.#engine);
  readonly #set = new Map<string, PolicyObject>();

  constructor(objects: PolicyObjects) {
    for (const each of objectSet(objects).values()) this.put(each);
  }

  put(each: PolicyObject): void {
    this.#set.set(nameOf(each), each);
    put(this.#engine, each);
  }

  remove(each: PolicyObject): void {
    this.#set.delete(nameOf(each));
    remove(this.#engine, each);
  }

  get switch(): PolicySwitch {
    this.#written.update();
    return new PolicySwitch(this.#engine.matrix, this.#written);
  }

  /** Checks that all three agree. @returns the clients for which port 80 of `shop/web` is open */
  judge(peers: readonly string[]): Readonly<Record<string, 'allow' | 'deny' | undefined>> {
    const { verdict } = this.switch;
    const { differences } = prove(this.#set, this.#engine.matrix, [...peers, ...outsiders], ports, { verdict, every: 1 });
    expect(differences.slice(0, 3)).toEqual([]);
    const port80 = { direction: 'ingress', pod: 'shop/web', protocol: 'TCP', port: 80, masqueraded: false } as const;
    return Object.fromEntries(peers.map((address) => [address, verdict({ ...port80, address })]));
  }
}

function cluster(parts: Partial<PolicyObjects>): Oracles {
  return new Oracles({ nodes, namespaces: [namespaceObject('shop')], pods: [], networkPolicies: [], ...parts });
}

const web = podObject('shop/web', ['10.1.0.5']);
const client = (labels: Labels, ips = ['10.2.0.5'], node = 'n2') => podObject('shop/client', ips, { node, labels });

describe.each(inherited)('a name that every object inherits, %s', (name) => {
  const plain = podObject('shop/plain', ['10.2.0.6'], { node: 'n2' });
  const expressions = (operator: string, values?: readonly string[]) => ({
    matchExpressions: [{ key: name, operator, ...(values ? { values } : {}) }],
  });

  it.each([
    [expressions('Exists'), { has: 'allow', lacks: 'deny' }],
    [expressions('DoesNotExist'), { has: 'deny', lacks: 'allow' }],
    [expressions('In', ['x', 'y']), { has: 'allow', lacks: 'deny' }],
    [expressions('NotIn', ['x']), { has: 'deny', lacks: 'allow' }],
    [expressions('In', ['function', 'z']), { has: 'deny', lacks: 'deny' }],
  ])('as a label of a peer: %j', (podSelector, { has, lacks }) => {
    const networkPolicies = [policyObject('shop/p', isolating([{ from: [{ podSelector }] }]))];
    const oracles = cluster({ pods: [web, client(labelled(name, 'x')), plain], networkPolicies });
    expect(oracles.judge(['10.2.0.5', '10.2.0.6'])).toEqual({ '10.2.0.5': has, '10.2.0.6': lacks });
  });

  it.each([
    [expressions('Exists'), 'deny'],
    [expressions('DoesNotExist'), 'allow'],
    [expressions('NotIn', ['x']), 'allow'],
  ])('as a label of a selected pod: %j', (podSelector, verdict) => {
    const subject = podObject('shop/web', ['10.1.0.5'], { labels: labelled(name, 'x') });
    const oracles = cluster({ pods: [subject, plain], networkPolicies: [policyObject('shop/p', isolating([], podSelector))] });
    expect(oracles.judge(['10.2.0.6'])).toEqual({ '10.2.0.6': verdict });
  });

  it.each([
    [expressions('Exists'), { has: 'allow', lacks: 'deny' }],
    [expressions('DoesNotExist'), { has: 'deny', lacks: 'allow' }],
  ])('as a label of a namespace: %j', (namespaceSelector, { has, lacks }) => {
    const namespaces = [namespaceObject('shop'), { metadata: { name: 'ops', labels: labelled(name, 'x') } }];
    const pods = [web, podObject('ops/client', ['10.2.0.5'], { node: 'n2' }), plain];
    const networkPolicies = [policyObject('shop/p', isolating([{ from: [{ namespaceSelector }] }]))];
    expect(cluster({ namespaces, pods, networkPolicies }).judge(['10.2.0.5', '10.2.0.6'])).toEqual({ '10.2.0.5': has, '10.2.0.6': lacks });
  });

  it('as that of a namespace, a pod, a policy and a port', () => {
    const containers = [{ ports: [{ name, containerPort: 80 }] }];
    const pods = [web, podObject(`${name}/${name}`, ['10.1.0.6'], { containers }), podObject(`${name}/peer`, ['10.2.0.5'], { node: 'n2' })];
    const spec = isolating([{ from: [{ podSelector: {} }], ports: [{ port: name }] }]);
    const oracles = cluster({
      namespaces: [namespaceObject('shop'), namespaceObject(name)],
      pods,
      networkPolicies: [policyObject(`${name}/${name}`, spec), policyObject('shop/p', isolating([{ ports: [{ port: name }] }]))],
    });
    expect(oracles.judge(['10.2.0.5'])).toEqual({ '10.2.0.5': 'deny' });
    const own = { direction: 'ingress', pod: `${name}/${name}`, protocol: 'TCP', address: '10.2.0.5', masqueraded: false } as const;
    expect([80, 81].map((port) => oracles.switch.verdict({ ...own, port }))).toEqual(['allow', 'deny']);
  });
});

describe('an address that another pod has by now', () => {
  const allowed = policyObject('shop/p', isolating([{ from: [{ podSelector: { matchLabels: { app: 'client' } } }] }]));
  const dead = (createdAt = '2026-01-01T00:00:00Z') =>
    ({ kind: 'Pod', object: podObject('shop/dead', ['10.2.0.5'], { node: 'n2', labels: { app: 'client' }, createdAt }) }) as const;
  const nextPod = (node = 'n2') =>
    ({ kind: 'Pod', object: podObject('shop/heir', ['10.2.0.5'], { node, createdAt: '2026-01-02T00:00:00Z' }) }) as const;
  const served = () => {
    const oracles = cluster({ pods: [web, dead().object], networkPolicies: [allowed] });
    expect(oracles.judge(['10.2.0.5'])).toEqual({ '10.2.0.5': 'allow' });
    return oracles;
  };

  it('denies traffic to a released pod IP, also after another pod gets it', () => {
    const oracles = served();
    oracles.remove(dead());
    expect(oracles.judge(['10.2.0.5'])).toEqual({ '10.2.0.5': 'deny' });
    oracles.put(nextPod());
    expect(oracles.judge(['10.2.0.5'])).toEqual({ '10.2.0.5': 'deny' });
  });

  it("is the younger pod's if the end of the other has not been reported yet, also if the other one is reported again", () => {
    const oracles = served();
    oracles.put(nextPod());
    expect(oracles.judge(['10.2.0.5'])).toEqual({ '10.2.0.5': 'deny' });
    oracles.put(dead());
    expect(oracles.judge(['10.2.0.5'])).toEqual({ '10.2.0.5': 'deny' });
    oracles.remove(dead());
    expect(oracles.judge(['10.2.0.5'])).toEqual({ '10.2.0.5': 'deny' });
  });

  it("is not a pod's of a node that does not have the network, however young", () => {
    const oracles = cluster({ pods: [web, nextPod().object], networkPolicies: [allowed] });
    oracles.put({
      ...dead('2026-01-03T00:00:00Z'),
      object: { ...dead('2026-01-03T00:00:00Z').object, spec: { nodeName: 'n3', containers: [] } },
    });
    expect(oracles.judge(['10.2.0.5'])).toEqual({ '10.2.0.5': 'deny' });
  });

  it.each(['Succeeded', 'Failed'])('belongs to no pod once its pod is %s', (phase) => {
    const oracles = served();
    oracles.put({ kind: 'Pod', object: { ...dead().object, status: { ...dead().object.status, phase } } });
    expect(oracles.judge(['10.2.0.5'])).toEqual({ '10.2.0.5': 'deny' });
  });
});

it('a pod of the host network has the addresses of its node, and its labels are ignored', () => {
  const selected = policyObject('shop/p', isolating([{ from: [{ podSelector: {} }, { namespaceSelector: {} }] }]));
  const addresses = { '10.2.0.1': 'n2', '192.168.0.2': 'n2', '10.1.0.1': 'n1' };
  const pods = Object.entries(addresses).map(([ip, node], at) => podObject(`shop/host-${at}`, [ip], { node, hostNetwork: true }));
  const oracles = cluster({ pods: [web, ...pods], networkPolicies: [selected] });
  expect(oracles.judge(Object.keys(addresses))).toEqual({ '10.2.0.1': 'deny', '192.168.0.2': 'deny', '10.1.0.1': 'allow' });
});

it('a source port opens nothing', () => {
  const oracles = cluster({ pods: [web, client({})], networkPolicies: [policyObject('shop/p', isolating([{ ports: [{ port: 80 }] }]))] });
  const policed = oracles.switch;
  const ends = [79, 80].map((port) => {
    const packet = { direction: 'ingress', pod: 'shop/web', address: '10.2.0.5', protocol: 'TCP', port, masqueraded: false } as const;
    const arrival = policed.arrivalOf(packet);
    if (!arrival) throw new Error('no way for the packet');
    const model = new SwitchModel({
      flows: policed.flows,
      groups: [],
      tracker: new ConnectionTracker('userspace'),
      choose: () => 0,
      tunnelPort: 1,
    });
    return endOf(packet, model.receive(arrival.inPort, { ...arrival.packet, portSrc: 80 }).tables);
  });
  expect(ends).toEqual(['deny', 'allow']);
});

it('a block with a selector of namespaces removes no pod from it, also if both come after the pods', () => {
  const oracles = cluster({ pods: [web, client({})] });
  expect(oracles.judge(['10.2.0.5', '203.0.113.9'])).toEqual({ '10.2.0.5': 'allow', '203.0.113.9': 'allow' });
  const others = { matchExpressions: [{ key: 'a', operator: 'DoesNotExist' }] };
  const from = [{ ipBlock: { cidr: '203.0.113.0/24' } }, { namespaceSelector: others }];
  oracles.put({ kind: 'NetworkPolicy', object: policyObject('shop/p', isolating([{ from }])) });
  expect(oracles.judge(['10.2.0.5', '203.0.113.9'])).toEqual({ '10.2.0.5': 'allow', '203.0.113.9': 'allow' });
});

it('the policies of a terminating namespace apply until they and their pods are deleted', () => {
  const deny = policyObject('shop/p', isolating([{ from: [{ namespaceSelector: { matchLabels: { team: 'sre' } } }] }]));
  const namespaces = [namespaceObject('shop'), namespaceObject('ops', { team: 'sre' })];
  const pods = [web, client({}), podObject('ops/admin', ['10.2.0.8'], { node: 'n2' })];
  const oracles = cluster({ namespaces, pods, networkPolicies: [deny] });
  const ending = {
    metadata: { ...namespaceObject('shop').metadata, deletionTimestamp: '2026-01-01T00:00:00Z' },
    status: { phase: 'Terminating' },
  };
  oracles.put({ kind: 'Namespace', object: ending });
  const held = { '10.2.0.5': 'deny', '10.2.0.8': 'allow' };
  expect(oracles.judge(['10.2.0.5', '10.2.0.8'])).toEqual(held);
  oracles.remove({ kind: 'Namespace', object: ending });
  expect(oracles.judge(['10.2.0.5', '10.2.0.8'])).toEqual(held);
  oracles.remove({ kind: 'Namespace', object: namespaceObject('ops') });
  expect(oracles.judge(['10.2.0.5', '10.2.0.8'])).toEqual({ '10.2.0.5': 'deny', '10.2.0.8': 'deny' });
});
