import type { Destination } from '../compile/refusal.ts';
import { portKey } from '../compile/service-claims.ts';
import type { ServiceIntent } from '../compile/service-intent.ts';
import type { ServiceChange, ServiceSubscriber } from './service-changes.ts';

/**
 * Ports that are served at cluster addresses. A connection to another port of such an address is refused; a connection to an address
 * without any port is not, because its Service may be new and not yet known to this node.
 */
export class ClusterAddresses implements ServiceSubscriber {
  /** Ports by address. */
  readonly #ports = new Map<string, Set<string>>();
  /** Addresses of Services for which more ports follow, by Service. */
  readonly #incomplete = new Map<string, Set<string>>();

  changed({ key, ports, hasMore }: Pick<ServiceChange, 'key' | 'ports' | 'hasMore'>): void {
    for (const { was, is } of ports) {
      this.#forget(was);
      this.#add(is);
    }
    if (!hasMore) this.#incomplete.delete(key);
    else {
      const known = this.#incomplete.get(key) ?? new Set();
      for (const { was, is } of ports) for (const { ip } of [...clusterAddresses(was), ...clusterAddresses(is)]) known.add(ip.text);
      this.#incomplete.set(key, known);
    }
  }

  /** Reports whether the address is a Service's and the Service has ports, but not this one. */
  isUnservedPort({ ip, transport, port }: Destination): boolean {
    const served = this.#ports.get(ip.text);
    if (served === undefined || served.has(portKey(transport, port))) return false;
    for (const addresses of this.#incomplete.values()) if (addresses.has(ip.text)) return false;
    return true;
  }

  #forget(intent: ServiceIntent | undefined): void {
    for (const { ip, port } of clusterAddresses(intent)) {
      const served = this.#ports.get(ip.text);
      if (intent === undefined || served === undefined) continue;
      served.delete(portKey(intent.transport, port));
      if (served.size === 0) this.#ports.delete(ip.text);
    }
  }

  #add(intent: ServiceIntent | undefined): void {
    for (const { ip, port } of clusterAddresses(intent)) {
      const served = this.#ports.get(ip.text) ?? new Set();
      if (intent) this.#ports.set(ip.text, served.add(portKey(intent.transport, port)));
    }
  }
}

function clusterAddresses(intent: ServiceIntent | undefined): ServiceIntent['addresses'] {
  return intent?.addresses.filter(({ kind }) => kind === 'cluster') ?? [];
}
