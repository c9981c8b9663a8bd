import type { NodeSpec } from 'kubernetes-types/core/v1.d.ts';
import type { Log } from '../../../log/log.ts';
import { type Cidr, cidrOf, type Family, ipFromValue, parseCidr } from '../../../net/ip.ts';
import type { Core } from '../core.ts';
import { ensureObject } from '../json.ts';
import type { KubeObject } from '../kube-object.ts';
import { builtIn, changeObject, recordEvent } from './access.ts';
import { ControllerLoop } from './loop.ts';

export interface NodeRanges {
  /** One for each family, the preferred first. */
  readonly cidrs: readonly string[];
  /** Length of the prefix of a node's part. */
  readonly masks: Readonly<Record<Family, number>>;
}

interface Pool {
  readonly cidr: Cidr;
  readonly mask: number;
  readonly count: bigint;
  next: bigint;
}

/** Gives every node its pod CIDRs, one of each family; they stay as long as the node object does. */
export function startNodeRanges(core: Core, { cidrs, masks }: NodeRanges, log: Log): ControllerLoop {
  const pools = cidrs.map(parseCidr).map((cidr): Pool => {
    const mask = Math.max(masks[cidr.family], cidr.prefixLength);
    return { cidr, mask, count: 1n << BigInt(mask - cidr.prefixLength), next: 0n };
  });
  const held = new Map<string, string>();
  const nodes = builtIn(core, '', 'nodes');
  const loop = new ControllerLoop('pod ranges', (name) => giveRanges(core, name, pools, held), log);
  const note = (node: KubeObject) => {
    for (const cidr of rangesOf(node)) held.set(parseCidr(cidr).text, node.metadata.name);
  };
  for (const { object } of core.store.list(nodes.storage)) {
    note(object);
    loop.mark(object.metadata.name);
  }
  core.store.subscribe(nodes.storage, ({ type, entry, previous }) => {
    if (type === 'DELETED') for (const cidr of rangesOf(previous?.object ?? entry.object)) held.delete(parseCidr(cidr).text);
    else {
      note(entry.object);
      loop.mark(entry.object.metadata.name);
    }
  });
  return loop;
}

function rangesOf(node: KubeObject): readonly string[] {
  return (node.spec as NodeSpec | undefined)?.podCIDRs ?? [];
}

function giveRanges(core: Core, name: string, pools: readonly Pool[], held: ReadonlyMap<string, string>): void {
  const nodes = builtIn(core, '', 'nodes');
  const node = core.store.get(nodes.storage, name)?.object;
  if (node === undefined || node.metadata.deletionTimestamp !== undefined || rangesOf(node).length > 0 || pools.length === 0) return;
  const given = pools.map((pool) => freeRange(pool, held));
  const missing = pools[given.indexOf(undefined)];
  if (missing !== undefined) {
    const message = `Node ${name} status is now: CIDRNotAvailable: ${missing.cidr.text} is used up`;
    recordEvent(core, node, { type: 'Warning', reason: 'CIDRNotAvailable', message, component: 'cidrAllocator' });
    return;
  }
  changeObject(core, nodes, node, 'kube-controller-manager', (draft) => {
    const spec = ensureObject(draft, 'spec');
    spec['podCIDR'] = given[0];
    spec['podCIDRs'] = given;
  });
}

/** Next-fit: a range just freed is the last to be given out again, so that peers have forgotten its last owner. */
function freeRange(pool: Pool, held: ReadonlyMap<string, string>): string | undefined {
  const { cidr, mask, count } = pool;
  const size = 1n << BigInt((cidr.family === 'ipv4' ? 32 : 128) - mask);
  for (let tries = 0n; tries < count; tries++) {
    const index = pool.next;
    pool.next = (index + 1n) % count;
    const range = cidrOf(ipFromValue(cidr.family, cidr.network.value + index * size), mask).text;
    if (!held.has(range)) return range;
  }
  return undefined;
}
