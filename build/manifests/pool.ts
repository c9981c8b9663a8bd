import type { Affinity, NodeSelectorRequirement } from 'kubernetes-types/core/v1.d.ts';

/** Labels and their values; a node must have all of them. */
export type NodeLabels = Readonly<Record<string, string>>;

/**
 * Nodes with agents of their own version or settings. Without `nodeSelector` they are those whose label {@link poolLabels} names the pool:
 * one label has one value, so that no node is in two pools, or has agents of a pool and of the cluster.
 */
export interface Pool {
  readonly name: string;
  readonly nodeSelector?: NodeLabels;
  /** True if the pool has its own Open vSwitch, too. */
  readonly ovs: boolean;
}

/** Nodes that are excluded for pools with a selector of their own; those with a label of {@link poolLabels} are excluded anyway. */
export interface LeftToPools {
  readonly agent: readonly NodeLabels[];
  readonly ovs: readonly NodeLabels[];
}

export type PooledPart = keyof typeof poolLabels;

/**
 * Labels of a node: the pool of its agent, and that of its Open vSwitch. Two labels, because the first is changed while packets flow, and
 * the second restarts Open vSwitch.
 */
export const poolLabels = { agent: 'seine.dev/pool', ovs: 'seine.dev/ovs-pool' } as const;

/** Maximum number of alternatives; longer selectors are unreadable. */
const MOST_TERMS = 32;

/** Placement of the pods of a part. @throws Error if the excluded nodes need more alternatives than the maximum */
export function placement(part: PooledPart, pool: Pool | undefined, left: LeftToPools): Affinity {
  const label = poolLabels[part];
  const own: readonly NodeSelectorRequirement[] =
    pool !== undefined && pool.nodeSelector === undefined
      ? [{ key: label, operator: 'In', values: [pool.name] }]
      : [
          ...Object.entries(pool?.nodeSelector ?? {}).map(([key, value]) => ({ key, operator: 'In', values: [value] })),
          { key: label, operator: 'DoesNotExist' },
        ];
  const terms = left[part].reduce(without, [own]);
  if (terms.length > MOST_TERMS)
    throw new Error(`nodes left to pools come to ${terms.length} alternatives, more than ${MOST_TERMS}: give the pools one label each`);
  const nodeSelectorTerms = terms.map((matchExpressions) => ({ matchExpressions: [...matchExpressions] }));
  return { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms } } };
}

/** A node that lacks one of the labels is not excluded: one alternative for each of them. */
function without(
  terms: readonly (readonly NodeSelectorRequirement[])[],
  labels: NodeLabels,
): readonly (readonly NodeSelectorRequirement[])[] {
  const lacks = Object.entries(labels).map(([key, value]) => ({ key, operator: 'NotIn', values: [value] }));
  return terms.flatMap((term) => lacks.map((lack) => [...term, lack]));
}

/** The name of an object of which each pool has its own. */
export function pooledName(name: string, pool: Pool | undefined): string {
  return pool === undefined ? name : `${name}-${pool.name}`;
}

export const poolNameOrNone = /^(?:[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?)?$/;

/** @throws Error naming the option and the value */
export function poolName(option: string, value: string): string {
  if (value === '' || !poolNameOrNone.test(value))
    throw new Error(`${option} ${value}: up to 32 small letters, digits and dashes are wanted, such as canary`);
  if (value === defaultPool) throw new Error(`${option} ${value}: this is what the agents of no pool are called`);
  return value;
}

const defaultPool = 'default';

/** A label key, with or without its domain; https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/. */
const labelKey = /^(?:[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?\/)?[A-Za-z0-9](?:[\w.-]{0,61}[A-Za-z0-9])?$/;
const labelValue = /^(?:[A-Za-z0-9](?:[\w.-]{0,61}[A-Za-z0-9])?)?$/;

/** @param value `KEY=VALUE[,KEY=VALUE…]`. @throws Error naming the option, the value, and the error */
export function nodeLabels(option: string, value: string): NodeLabels {
  const labels = new Map<string, string>();
  for (const pair of value.split(',')) {
    const [, key, wanted] = /^([^=]*)=(.*)$/s.exec(pair) ?? [];
    if (key === undefined || wanted === undefined || !labelKey.test(key) || !labelValue.test(wanted))
      throw new Error(`${option} ${value}: "${pair}" is no label; KEY=VALUE[,KEY=VALUE…] is wanted, such as disk=ssd`);
    if (labels.has(key)) throw new Error(`${option} ${value}: no node has two values of ${key}`);
    if (key === poolLabels.agent || key === poolLabels.ovs)
      throw new Error(`${option} ${value}: ${key} is what pools without this option are known by; leave it out`);
    labels.set(key, wanted);
  }
  // In the order of their keys, as in the Helm chart.
  return Object.fromEntries([...labels].toSorted(([one], [other]) => (one < other ? -1 : 1)));
}
