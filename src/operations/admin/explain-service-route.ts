import { within } from '../../base/async/time-limit.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { Owner } from '../../dataplane/pipeline/cookie.ts';
import type { Service } from '../../kubernetes/resources/service.ts';
import type { Ipam } from '../../pods/ipam/ipam.ts';
import { podName } from '../../pods/ipam/lease.ts';
import { type AffinityReader, readFullAffinities } from '../diagnose/entries/affinity-clients.ts';
import { type ApiAnswer, json } from './answer.ts';
import { explainService, type ServiceClient } from './views/service-explanation.ts';
import type { ServiceSources } from './views/service-view.ts';

/** Maximum time to wait for OVS (ms). */
const PATIENCE_MS = 1_000;

export interface ServiceExplanationPort {
  readonly openflow: AffinityReader;
  readonly config: { readonly nodeName: string };
  readonly sources: { readonly services: { readonly replica: { get(key: string): Service | undefined } } };
  /** @throws SeineError `UNAVAILABLE` until the node is known */
  readonly running: () => {
    readonly services: ServiceSources;
    readonly ipam: Pick<Ipam, 'leases'>;
    readonly proxy: { readonly mode: { readonly sentence: string } };
  };
}

/** `?name=NAMESPACE/NAME`, and `&from=` a pod of this node, `node` or `external`. @throws SeineError `INVALID_INPUT` */
export async function serviceExplanation(port: ServiceExplanationPort, query: URLSearchParams, signal: AbortSignal): Promise<ApiAnswer> {
  const { services, ipam, proxy } = port.running();
  const name = query.get('name') ?? '';
  const service = port.sources.services.replica.get(name);
  if (!service) throw new SeineError('INVALID_INPUT', `there is no Service ${JSON.stringify(name)}`);
  const places = { nodeName: port.config.nodeName, addresses: services.proxying.node.addresses, ipam };
  const clients = clientsOf(places, query.get('from') ?? undefined);
  const fullAffinities = service.affinitySeconds === undefined ? [] : await fullPorts(port.openflow, services.ownersOf(name).ports, signal);
  return json(explainService({ service, services, node: port.config.nodeName, clients, proxyAll: proxy.mode.sentence, fullAffinities }));
}

/** None if OVS does not answer: the rest of the explanation does not need it. */
async function fullPorts(openflow: AffinityReader, ports: readonly Owner[], signal: AbortSignal): Promise<readonly Owner[]> {
  return await readFullAffinities(openflow, () => ports, within(signal, PATIENCE_MS)).catch(() => []);
}

interface ClientPlaces extends Pick<ServiceClient, 'addresses'> {
  readonly nodeName: string;
  readonly ipam: Pick<Ipam, 'leases'>;
}

function clientsOf({ nodeName, addresses, ipam }: ClientPlaces, from: string | undefined): readonly ServiceClient[] {
  const itself: ServiceClient = { client: 'node', name: `Node ${nodeName} itself`, addresses };
  const external: ServiceClient = { client: 'external', name: 'An external client', addresses: [] };
  if (from === 'node') return [itself];
  if (from === 'external') return [external];
  if (from === undefined) return [{ client: 'pod', name: 'A pod of this node', addresses: [] }, itself, external];
  const name = from.includes('/') ? from : `default/${from}`;
  const lease = ipam.leases().find((each) => each.state === 'allocated' && podName(each) === name);
  if (!lease)
    throw new SeineError(
      'INVALID_INPUT',
      `this node has no pod ${JSON.stringify(name)}; run this on its node, or use --from node or --from external`,
    );
  return [{ client: 'pod', name: `Pod ${name}`, addresses: lease.addresses.map(({ ip }) => ip) }];
}
