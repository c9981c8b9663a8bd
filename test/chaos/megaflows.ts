import type { Lab } from './lab.ts';

/** Time until OVS, if it keeps stale megaflows, is made to drop them (docs/adr/0066-megaflows-are-forgotten.md), and two seconds (ms). */
export const megaflowsMs = 13_000;

/** A cached flow of the data path, `dpctl/dump-flows`. */
interface Megaflow {
  /** Match in the syntax of `ofproto/trace`. */
  readonly key: string;
  readonly actions: string;
}

/**
 * Megaflows of IP packets as they arrive at a port, before the conntrack lookup: only those can be traced alone. Not of neighbour
 * discovery, for which `ofproto/trace` requires more than a megaflow has.
 */
const ofPackets = /^recirc_id\(0\),in_port\(\d+\),.*eth_type\(0x(?:0800|86dd)\)(?!.*,nd\()/;

/** Notation of an Ethernet header without matched fields. `ofproto/trace` reads it as a packet without one. */
const ethernet = /packet_type\(ns=0,id=0\),(?!eth\()/;
const anyEthernet = 'eth(src=00:00:00:00:00:00,dst=00:00:00:00:00:00),';

/** @param text of `dpctl/dump-flows` */
export function parseMegaflows(text: string): readonly Megaflow[] {
  return text.split('\n').flatMap((line) => {
    const [, key, actions] = /^(.*), packets:.*, actions:(.*)$/.exec(line) ?? [];
    return key !== undefined && actions !== undefined && ofPackets.test(key) ? [{ key: key.replace(ethernet, anyEthernet), actions }] : [];
  });
}

/** Result of the present flows; undefined if the tool rejects its own syntax. @param text of `ofproto/trace` */
export function tracedActions(text: string): string | undefined {
  return /^Datapath actions: (.*)$/m.exec(text)?.[1];
}

/** Megaflows that drop packets which the flows allow, or vice versa, one sentence each. The flows themselves are right. */
export async function staleMegaflows(lab: Lab): Promise<readonly string[]> {
  const stale: string[] = [];
  for (const { key, actions } of parseMegaflows(await lab.on('ovs-appctl', 'dpctl/dump-flows'))) {
    const now = tracedActions(await lab.on('ovs-appctl', 'ofproto/trace', key).catch(String));
    if (now !== undefined && (now === 'drop') !== (actions === 'drop'))
      stale.push(`megaflow out of date: ${key} has actions ${actions}, and its flows ${now}`);
  }
  return stale;
}
