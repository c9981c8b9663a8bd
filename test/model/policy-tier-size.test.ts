import { describe, expect, it } from 'vitest';
import { finish, type Steps } from '../../src/base/async/steps.ts';
import { nothing } from '../../src/dataplane/desired/host-entries.ts';
import type { Owner } from '../../src/dataplane/pipeline/cookie.ts';
import type { Flow } from '../../src/dataplane/pipeline/flow.ts';
import type { NumberedRow } from '../../src/dataplane/pipeline/flow-pattern.ts';
import { tables } from '../../src/dataplane/pipeline/tables.ts';
import { type BridgeKey, type BridgeValue, encodeBridgeEntries } from '../../src/dataplane/targets/bridge/bridge-entry.ts';
import type { ClusterNetworkPolicy, ClusterPolicyRule } from '../../src/kubernetes/resources/cluster-network-policy.ts';
import type { PolicyEngine } from '../../src/policy/engine/policy-engine.ts';
import { PolicyFlows } from '../../src/policy/flows/policy-flows.ts';
import { policyDirections } from '../../src/policy/matrix/matrix.ts';
import { largeNode } from '../support/large-policy-node.ts';

/** Sizes of cluster policies on a node with 110 pods of 60 namespaces, whose own NetworkPolicies isolate them. */

const named = (name: string) => [{ key: 'kubernetes.io/metadata.name', operator: 'In' as const, values: [name] }];
const app = (value: string) => [{ key: 'app', operator: 'In' as const, values: [value] }];
const podNamed = (value: string) => [{ key: 'statefulset.kubernetes.io/pod-name', operator: 'In' as const, values: [value] }];
const port = (number: number) => ({ protocol: 'TCP' as const, first: number, last: number });

/** One policy for all pods: rules about namespaces, and about labels of pods, each with a port of its own. */
function allPods(ofNamespaces: number, ofLabels: number, firstPort = 1_000): ClusterNetworkPolicy {
  const action = (at: number): ClusterPolicyRule['action'] => (at % 3 === 0 ? 'deny' : at % 3 === 1 ? 'pass' : 'accept');
  const rules: readonly ClusterPolicyRule[] = [
    ...Array.from({ length: ofNamespaces }, (_, at) => ({
      action: action(at),
      peers: [{ namespaces: named(`ns${at}`), pods: [] }],
      protocols: [port(firstPort + at)],
    })),
    ...Array.from({ length: ofLabels }, (_, at) => ({
      action: action(at),
      peers: [{ namespaces: [], pods: at < 4 ? app(`a${at}`) : podNamed(`p${at}`) }],
      protocols: [port(2_000 + at)],
    })),
  ];
  const subject = { namespaces: [], pods: [] };
  return { name: 'all', uid: 'all', generation: 1, createdAt: '', tier: 'admin', priority: 1, subject, ingress: rules, egress: rules };
}

/** The bridge is clean: rows may be edited in place. */
function* editsAllowed(): Steps<number> {
  yield;
  return 10_000;
}

/** Desired flows of a node, changed by rounds as the agent runs them. */
class CountedNode {
  readonly #engine: PolicyEngine;
  readonly #flows = new PolicyFlows({ families: ['ipv4'] });
  readonly #byOwner = new Map<Owner, ReadonlyMap<BridgeKey, BridgeValue>>();
  readonly rows = new Map<Owner, readonly Flow[]>();

  constructor(engine: PolicyEngine) {
    this.#engine = engine;
  }

  /** Runs a round. @returns its flow-mods in policy tables, and the pods whose entry flows change */
  round(): { readonly flowMods: number; readonly movedPods: number } {
    const before = new Map([...this.#engine.matrix.subjects.keys()].map((pod) => [pod, JSON.stringify(this.#flows.classesOf(pod))]));
    const change = finish(this.#engine.round());
    const surroundings = { adoptedAt: () => undefined, areAddressesKnown: () => true };
    const plan = this.#flows.plan(this.#engine, change, surroundings, editsAllowed);
    const { wanted, edited, subjects } = finish(plan);
    let flowMods = 0;
    for (const part of [...wanted, edited]) for (const [owner, rows] of part) flowMods += this.#replace(owner, rows);
    this.#engine.publish();
    this.#flows.publish(this.#engine.matrix, subjects);
    const movedPods = [...before].filter(([pod, classes]) => JSON.stringify(this.#flows.classesOf(pod)) !== classes).length;
    return { flowMods, movedPods };
  }

  #replace(owner: Owner, rows: NumberedRow | readonly Flow[]): number {
    const flows = 'number' in rows ? [rows.rows.flowOf(rows.ip, rows.number)] : rows;
    const [was, will] = [this.#byOwner.get(owner) ?? new Map(), encodeBridgeEntries(owner, { ...nothing, flows })];
    this.#byOwner.set(owner, will);
    this.rows.set(owner, flows);
    const added = [...will].filter(([key, value]) => !isEqual(was.get(key), value)).length;
    return added + [...was.keys()].filter((key) => !will.has(key)).length;
  }
}

function isEqual(a: unknown, b: unknown): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

const admin = {
  ingress: [tables.ingressAdmin.id, tables.ingressAdminPorts.id],
  egress: [tables.egressAdmin.id, tables.egressAdminPorts.id],
} as const;

function rowsOfTier(node: CountedNode): readonly number[] {
  const all = [...node.rows.values()].flat().map(({ table }) => tables[table].id);
  return policyDirections.map((direction) => all.filter((id) => admin[direction].some((own) => own === id)).length);
}

describe('cluster policies of a large node', () => {
  it.each([
    [10, 10, 1_200],
    [20, 50, 6_000],
  ])('with %i rules about namespaces and %i about labels have at most %i rows a direction', (ofNamespaces, ofLabels, most) => {
    const { engine } = largeNode();
    engine.putClusterPolicy(allPods(ofNamespaces, ofLabels));
    const node = new CountedNode(engine);
    node.round();
    const rows = rowsOfTier(node);
    process.stdout.write(`${ofNamespaces} + ${ofLabels} rules: ${rows.join(' and ')} rows\n`);
    expect(Math.min(...rows)).toBeGreaterThan(ofNamespaces + ofLabels);
    expect(Math.max(...rows)).toBeLessThanOrEqual(most);
  });

  it('changes a port of a rule for all pods with at most 8 flow-mods, and no entry flow', () => {
    const { engine } = largeNode();
    engine.putClusterPolicy({ ...allPods(1, 0), egress: [] });
    const node = new CountedNode(engine);
    node.round();
    engine.putClusterPolicy({ ...allPods(1, 0, 1_001), egress: [] });
    const { flowMods, movedPods } = node.round();
    process.stdout.write(`${flowMods} flow-mods\n`);
    expect(movedPods).toBe(0);
    expect(flowMods).toBeGreaterThan(0);
    expect(flowMods).toBeLessThanOrEqual(8);
  });

  it('of other pods change no row and no entry flow', () => {
    const { engine } = largeNode();
    const node = new CountedNode(engine);
    node.round();
    engine.putNamespace('elsewhere', { team: 'other' });
    const other = [{ key: 'team', operator: 'In' as const, values: ['other'] }];
    engine.putClusterPolicy({ ...allPods(10, 10), subject: { namespaces: other, pods: [] } });
    expect(node.round()).toEqual({ flowMods: 0, movedPods: 0 });
  });
});
