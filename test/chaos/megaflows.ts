import type { Lab } from './lab.ts';

/** Up to when a switch that keeps megaflows too long is told to forget them (docs/adr/0066-megaflows-are-forgotten.md), and two seconds (ms). */
export const megaflowsMs = 13_000;

/** What the data path was told of a kind of packets, `dpctl/dump-flows`. */
interface Megaflow {
  /** As `ofproto/trace` takes it. */
  readonly key: string;
  readonly actions: string;
}

/**
 * Of IP packets as they come from a port, before they were looked up among connections: only those can be traced by themselves. Not of
 * neighbour discovery, of which `ofproto/trace` wants more than a megaflow has.
 */
const ofPackets = /^recirc_id\(0\),in_port\(\d+\),.*eth_type\(0x(?:0800|86dd)\)(?!.*,nd\()/;

/** How it is written that a packet has an Ethernet header of which nothing matters. `ofproto/trace` takes that for a packet without one. */
const ethernet = /packet_type\(ns=0,id=0\),(?!eth\()/;
const anyEthernet = 'eth(src=00:00:00:00:00:00,dst=00:00:00:00:00:00),';

/** @param text of `dpctl/dump-flows` */
export function parseMegaflows(text: string): readonly Megaflow[] {
  return text.split('\n').flatMap((line) => {
    const [, key, actions] = /^(.*), packets:.*, actions:(.*)$/.exec(line) ?? [];
    return key !== undefined && actions !== undefined && ofPackets.test(key) ? [{ key: key.replace(ethernet, anyEthernet), actions }] : [];
  });
}

/** What the flows make of it now; nothing where the tool does not take what it prints. @param text of `ofproto/trace` */
export function tracedActions(text: string): string | undefined {
  return /^Datapath actions: (.*)$/m.exec(text)?.[1];
}

/** Megaflows by which packets are dropped that the flows let through, or the other way round, a sentence each. The flows themselves are right. */
export async function staleMegaflows(lab: Lab): Promise<readonly string[]> {
  const stale: string[] = [];
  for (const { key, actions } of parseMegaflows(await lab.on('ovs-appctl', 'dpctl/dump-flows'))) {
    const now = tracedActions(await lab.on('ovs-appctl', 'ofproto/trace', key).catch(String));
    if (now !== undefined && (now === 'drop') !== (actions === 'drop'))
      stale.push(`megaflow out of date: ${key} has actions ${actions}, and its flows ${now}`);
  }
  return stale;
}
