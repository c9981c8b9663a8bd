import type { NodeSpec } from 'kubernetes-types/core/v1.d.ts';
import type { Log } from '../../../src/base/log/log.ts';
import { type Cidr, cidrOf, type Family, ipFromValue, parseCidr } from '../../../src/base/net/ip.ts';
import type { ApiObject } from '../object/api-object.ts';
import { ensureObject } from '../object/json.ts';
import type { ApiResource } from '../resource/resource.ts';
import type { Store } from '../store/store.ts';
import type { ObjectWriter } from '../write/object-writer.ts';
import { changeObject, type RecordEvent } from './access.ts';
import { ControllerLoop } from './loop.ts';

export interface NodeRanges {
  /** One CIDR for each family, the preferred first. */
  readonly cidrs: readonly string[];
  /** Prefix length of a node's CIDR. */
  readonly masks: Readonly<Record<Family, number>>;
}

interface NodeRangePorts {
  readonly store: Pick<Store, 'get' | 'list' | 'subscribe'>;
  readonly writer: Pick<ObjectWriter, 'update'>;
  readonly nodes: ApiResource;
  readonly recordEvent: RecordEvent;
}

interface PodCidrPool {
  readonly cidr: Cidr;
  readonly mask: number;
  readonly count: bigint;
  next: bigint;
}

/** Assigns pod CIDRs to every node, one of each family; they stay as long as the node object does. */
export function startNodeRanges(ports: NodeRangePorts, { cidrs, masks }: NodeRanges, log: Log): ControllerLoop {
  const pools = cidrs.map(parseCidr).map((cidr): PodCidrPool => {
    const mask = Math.max(masks[cidr.family], cidr.prefixLength);
    return { cidr, mask, count: 1n << BigInt(mask - cidr.prefixLength), next: 0n };
  });
  const held = new Map<string, string>();
  const { nodes } = ports;
  const loop = new ControllerLoop('pod ranges', (name) => giveRanges(ports, name, pools, held), log);
  const note = (node: ApiObject) => {
    for (const cidr of rangesOf(node)) held.set(parseCidr(cidr).text, node.metadata.name);
  };
  for (const { object } of ports.store.list(nodes.storage)) {
    note(object);
    loop.mark(object.metadata.name);
  }
  ports.store.subscribe(nodes.storage, ({ type, entry, previous }) => {
    if (type === 'DELETED') for (const cidr of rangesOf(previous?.object ?? entry.object)) held.delete(parseCidr(cidr).text);
    else {
      note(entry.object);
      loop.mark(entry.object.metadata.name);
    }
  });
  return loop;
}

function rangesOf(node: ApiObject): readonly string[] {
  return (node.spec as NodeSpec | undefined)?.podCIDRs ?? [];
}

function giveRanges(ports: NodeRangePorts, name: string, pools: readonly PodCidrPool[], held: ReadonlyMap<string, string>): void {
  const { nodes } = ports;
  const node = ports.store.get(nodes.storage, name)?.object;
  if (node === undefined || node.metadata.deletionTimestamp !== undefined || rangesOf(node).length > 0 || pools.length === 0) return;
  const given = pools.map((pool) => freeRange(pool, held));
  const missing = pools[given.indexOf(undefined)];
  if (missing !== undefined) {
    const message = `Node ${name} status is now: CIDRNotAvailable: ${missing.cidr.text} is used up`;
    ports.recordEvent(node, { type: 'Warning', reason: 'CIDRNotAvailable', message, component: 'cidrAllocator' });
    return;
  }
  changeObject(ports.writer, nodes, node, 'kube-controller-manager', (draft) => {
    const spec = ensureObject(draft, 'spec');
    spec['podCIDR'] = given[0];
    spec['podCIDRs'] = given;
  });
}

/** Next-fit: a range just freed is the last to be reused, so that peers have forgotten its last owner. */
function freeRange(pool: PodCidrPool, held: ReadonlyMap<string, string>): string | undefined {
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
