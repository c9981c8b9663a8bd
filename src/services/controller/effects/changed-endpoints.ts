import { nodePortAddress } from '../../../dataplane/pipeline/well-known.ts';
import type { ServiceAddress, ServiceIntent } from '../../compile/service-intent.ts';
import type { ServedDestination } from './previously-served.ts';
import { endpointsAt, ipProtocols, kindOf, type Stale, servedKey, staleAfter } from './stale-connections.ts';

/** Changes since the bridge was read that make connections stale. */
interface ConnectionsToClean {
  readonly stale: Stale;
  /** Number of endpoints (or addresses without any) whose connections are to be deleted, and number of all previous and current ones. */
  readonly lost: number;
  readonly all: number;
}

/**
 * Returns connections whose destination is no longer served, because the bridge forwarded there before. Services at addresses that the
 * bridge did not know are new: connections that passed them by are stale too. A bridge without Services had been reset, and gives no
 * information.
 *
 * @param led addresses that the bridge served
 * @param served ports served now, by `servedKey`
 */
export function staleSince(led: readonly ServedDestination[], served: ReadonlyMap<string, ServiceIntent>): ConnectionsToClean {
  const known = new Set<string>();
  const found: Stale[] = [];
  let all = 0;
  for (const each of led) {
    const key = servedKey(ipProtocols[each.transport], each);
    known.add(key);
    all += Math.max(1, each.inside.length);
    found.push(sinceThen(each, served.get(key)));
  }
  for (const [key, intent] of led.length > 0 ? served : []) {
    if (known.has(key)) continue;
    all++;
    const addresses = intent.addresses.filter((address) => servedKey(ipProtocols[intent.transport], address) === key);
    found.push(staleAfter(undefined, { ...intent, addresses }, { transports: [intent.transport], newServices: 'flushed' }));
  }
  const stale = { bridge: found.flatMap(({ bridge }) => bridge), host: found.flatMap(({ host }) => host) };
  return { stale, lost: stale.bridge.length, all };
}

function sinceThen(led: ServedDestination, now: ServiceIntent | undefined): Stale {
  const { transport, ip, port } = led;
  const guess = ip.text === nodePortAddress[ip.family].text ? 'nodePort' : 'cluster';
  const address: ServiceAddress = { kind: now ? kindOf({ kind: guess, ip, port }, now) : guess, ip, port };
  const after = now && { ...now, addresses: [address] };
  // A `Local` Service without an endpoint here has none before and after: no connection passed it by.
  const hasNone = led.inside.length + (led.external?.length ?? 0) === 0;
  if (after && hasNone && endpointsAt(address.kind, after).length === 0) return { bridge: [], host: [] };
  return staleAfter(asIntent(led, address), after, { transports: [transport], newServices: 'kept' });
}

/** Returns the intent from which such an address would have been compiled. */
function asIntent({ transport, ip, port, inside, external }: ServedDestination, address: ServiceAddress): ServiceIntent {
  return {
    name: '',
    family: ip.family,
    transport,
    port,
    addresses: [address],
    internalPolicy: 'Cluster',
    externalPolicy: external === undefined ? 'Cluster' : 'Local',
    translation: 'endpoint',
    sourceRanges: [],
    cluster: inside,
    local: external ?? [],
    anyEndpoint: true,
    objections: [],
  };
}
