import type { Ip } from '../../base/net/ip.ts';
import type { Transport } from '../../dataplane/pipeline/flow.ts';
import { nodePortAddress } from '../../dataplane/pipeline/well-known.ts';
import type { ServiceEndpoint, ServiceIntent } from './service-intent.ts';
import { translationOf } from './virtual-ports.ts';

/** Finds the destination to which nftables translates a packet before the bridge has it. */
type PortTranslation = (ip: Ip, transport: Transport, port: number) => ServiceEndpoint | undefined;

/**
 * Returns the translations of a node with these intents, whose node ports are open at all of its addresses: those that the controller
 * writes as elements, for places without nftables.
 *
 * @param isOwn reports whether an address is the node's
 */
export function translatedPorts(intents: Iterable<ServiceIntent>, isOwn: (ip: Ip) => boolean): PortTranslation {
  const nodePorts = new Set<string>();
  const own = new Map<string, ServiceEndpoint>();
  for (const intent of intents)
    for (const address of intent.addresses) {
      const { kind, ip, port } = address;
      if (kind === 'nodePort') nodePorts.add(keyOf(ip.family, intent.transport, port));
      if ((kind !== 'external' && kind !== 'loadBalancer') || !isOwn(ip)) continue;
      const instead = translationOf(intent, address);
      if (instead) own.set(keyOf(ip.text, intent.transport, port), instead);
    }
  return (ip, transport, port) => {
    if (!isOwn(ip)) return undefined;
    const instead = own.get(keyOf(ip.text, transport, port));
    if (instead) return { ip: instead.ip, port: instead.port };
    return nodePorts.has(keyOf(ip.family, transport, port)) ? { ip: nodePortAddress[ip.family], port } : undefined;
  };
}

function keyOf(place: string, transport: Transport, port: number): string {
  return `${place} ${transport} ${port}`;
}
