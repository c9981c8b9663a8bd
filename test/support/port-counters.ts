import { runIn } from '../../lab/machine/netns.ts';
import type { NetnsRef } from '../../lab/plan/names.ts';

/** Packets and bytes of IP (headers included) that a namespace has sent from a port of its own, and received at it. */
export interface PortCounts {
  readonly sent: Count;
  readonly received: Count;
}

interface Count {
  readonly packets: number;
  readonly bytes: number;
}

interface ListedSet {
  readonly nftables: readonly {
    readonly set?: {
      readonly elem?: readonly {
        readonly elem: { readonly val: { readonly concat: readonly (string | number)[] }; readonly counter: Count };
      }[];
    };
  }[];
}

const none: Count = { packets: 0, bytes: 0 };
const keyed = (port: 'sport' | 'dport'): string => `meta nfproto . meta l4proto . th ${port}`;
const counting = (set: string, port: 'sport' | 'dport', hook: 'input' | 'output'): string => `
  set ${set} { typeof ${keyed(port)}; flags dynamic; size 65535; counter; }
  chain ${hook} { type filter hook ${hook} priority 0; meta l4proto { tcp, udp } update @${set} { ${keyed(port)} counter }; }`;

/** Counts what a namespace exchanges from now on, by `FAMILY PROTOCOL PORT`, such as `ipv4 tcp 40000`. */
export async function countPackets(
  netns: NetnsRef,
  signal: () => AbortSignal,
): Promise<{ readonly read: () => Promise<ReadonlyMap<string, PortCounts>> }> {
  const table = `table inet counted {${counting('sent', 'sport', 'output')}${counting('received', 'dport', 'input')}\n}`;
  await runIn(netns, 'nft', ['delete', 'table', 'inet', 'counted'], {}, signal()).catch(() => undefined); // of an earlier count
  await runIn(netns, 'nft', [table], {}, signal());
  return {
    read: async () => {
      const counts = new Map<string, PortCounts>();
      for (const direction of ['sent', 'received'] as const)
        for (const [key, count] of await listed(netns, direction, signal()))
          counts.set(key, { sent: none, received: none, ...counts.get(key), [direction]: count });
      return counts;
    },
  };
}

async function listed(netns: NetnsRef, set: string, signal: AbortSignal): Promise<readonly (readonly [string, Count])[]> {
  const { nftables } = JSON.parse(await runIn(netns, 'nft', ['-j', 'list', 'set', 'inet', 'counted', set], {}, signal)) as ListedSet;
  const elements = nftables.flatMap((each) => each.set?.elem ?? []);
  return elements.map(({ elem: { val, counter } }) => [val.concat.join(' '), { packets: counter.packets, bytes: counter.bytes }] as const);
}
