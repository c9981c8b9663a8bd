import type { ServiceExplanation } from '../../../api/object.ts';
import { cidrContains, type Ip } from '../../../base/net/ip.ts';
import type { Owner } from '../../../dataplane/pipeline/cookie.ts';
import { affinityClientsMax } from '../../../dataplane/targets/bridge/encoding/learn-actions.ts';
import type { Service } from '../../../kubernetes/resources/service.ts';
import { skipReason, unusedEndpoints } from '../../../services/compile/intent.ts';
import {
  answerFor,
  type ClientLocation,
  type ServiceAddress,
  type ServiceEndpoint,
  type ServiceIntent,
  shownAddresses,
} from '../../../services/compile/service-intent.ts';
import type { ServiceSources } from './service-view.ts';

/** Location of the client: the node itself, outside, or a pod of this node with its addresses. */
export type ServiceClient = { readonly client: ClientLocation; readonly name: string; readonly addresses: readonly Ip[] };

interface ExplainedService {
  readonly service: Service;
  readonly services: ServiceSources;
  readonly node: string;
  readonly clients: readonly ServiceClient[];
  /** Setting for which Services are served, as text. */
  readonly proxyAll: string;
  /** Ports that remember the maximum number of clients. */
  readonly fullAffinities: readonly Owner[];
}

/** Maximum number of endpoints that are named; the others are counted. */
const NAMED_MAX = 10;

/** Explains the answers that clients of a Service get on this node, one sentence per line. Pure. */
export function explainService({ service, services, node, clients, proxyAll, fullAffinities }: ExplainedService): ServiceExplanation {
  const name = `${service.namespace}/${service.name}`;
  const idle = skipReason(service, services.proxying.config);
  if (idle !== undefined) return { name, lines: [`${name} is not served by ${node}: ${idle}.`] };
  const intents = [...services.portsOf(name)].map(([owner, { intent }]) => [owner, intent] as const);
  const objections = services.objections.of(name).map((reason) => `Differs from the specification of the Service: ${reason}.`);
  if (intents.length === 0) return { name, lines: [`Nothing of ${name} is served by ${node}.`, ...objections] };
  return {
    name,
    lines: [
      ...intents.flatMap(([owner, intent]) => [
        ...explainPort(service, services, intent, clients),
        ...(fullAffinities.includes(owner)
          ? [`! ${affinityClientsMax} clients are remembered, the maximum of a port: further clients are balanced without affinity.`]
          : []),
      ]),
      ...(services.proxying.config.proxyAll ? [] : [`Other addresses than the cluster's are not served here: proxyAll is ${proxyAll}.`]),
      ...objections,
    ],
  };
}

function explainPort(
  service: Service,
  services: ServiceSources,
  intent: ServiceIntent,
  clients: readonly ServiceClient[],
): readonly string[] {
  const { transport, affinitySeconds } = intent;
  const slices = services.slicesOf(`${service.namespace}/${service.name}`);
  return [
    `Port ${intent.name}, ${transport.toUpperCase()}:`,
    ...shownAddresses(intent).flatMap((address) => clients.map((serviceClient) => `  ${explainAnswer(intent, address, serviceClient)}`)),
    ...(affinitySeconds === undefined
      ? []
      : [`  A client stays with its endpoint until it has opened no connection for ${affinitySeconds} s.`]),
    ...unusedEndpoints(service, slices, intent, services.proxying)
      .slice(0, NAMED_MAX)
      .map((endpoint) => `  ${endpointText(endpoint)} is not used: ${endpoint.why}.`),
  ];
}

function explainAnswer(intent: ServiceIntent, address: ServiceAddress, serviceClient: ServiceClient): string {
  const who = `${serviceClient.name} at ${addressText(address)}`;
  if (isShutOut(intent, address, serviceClient)) return `${who} is dropped: it is in none of loadBalancerSourceRanges.`;
  const answer = answerFor(intent, address.kind, serviceClient.client);
  if (answer.do === 'refuse') return `${who} is refused immediately: there is no endpoint${intent.anyEndpoint ? ' for it' : ''}.`;
  if (answer.do === 'drop') return `${who} is dropped: only endpoints of this node are allowed (policy Local), and there are none.`;
  const limited = rangesText(intent, address, serviceClient);
  return `${who} gets ${endpointsText(answer.endpoints)}${whyThese(intent, address, answer.scope, serviceClient)}${limited}${sourceText(intent, address, serviceClient)}.`;
}

/** Known only for clients whose addresses are known. */
function isShutOut({ sourceRanges, family }: ServiceIntent, { kind }: ServiceAddress, { client, addresses }: ServiceClient): boolean {
  if (kind !== 'loadBalancer' || sourceRanges.length === 0 || client === 'external') return false;
  const own = addresses.filter((ip) => ip.family === family);
  return own.length > 0 && !own.some((ip) => sourceRanges.some((range) => cidrContains(range, ip)));
}

function rangesText({ sourceRanges }: ServiceIntent, { kind }: ServiceAddress, { client }: ServiceClient): string {
  if (kind !== 'loadBalancer' || sourceRanges.length === 0 || client !== 'external') return '';
  return `, if it is in ${sourceRanges.map(({ text }) => text).join(' or ')}`;
}

function whyThese(intent: ServiceIntent, { kind }: ServiceAddress, scope: 'cluster' | 'local', { client }: ServiceClient): string {
  if (scope === 'local') return `, those of this node (${kind === 'cluster' ? 'internal' : 'external'}TrafficPolicy Local)`;
  if (kind !== 'cluster' && intent.externalPolicy === 'Local' && client !== 'external')
    return ', any of the cluster: externalTrafficPolicy Local is for external clients';
  return '';
}

/** Describes when the endpoint does not see the client's own address. */
function sourceText({ externalPolicy }: ServiceIntent, { kind }: ServiceAddress, { client }: ServiceClient): string {
  if (client !== 'external' || kind === 'cluster') return '';
  return externalPolicy === 'Local'
    ? ', which see the client’s address'
    : '; those of this node see the client’s address, those of others an address of this node’s pod network';
}

function endpointsText(endpoints: readonly ServiceEndpoint[]): string {
  const named = endpoints.slice(0, NAMED_MAX).map(endpointText).join(', ');
  const more = endpoints.length > NAMED_MAX ? ` and ${endpoints.length - NAMED_MAX} more` : '';
  return endpoints.length === 1 ? `the one endpoint ${named}` : `one of ${endpoints.length} endpoints: ${named}${more}`;
}

function addressText({ kind, ip, port }: ServiceAddress): string {
  const words = { cluster: 'cluster address', external: 'external address', loadBalancer: 'load balancer’s address' } as const;
  return kind === 'nodePort' ? `node port ${port}` : `${words[kind]} ${withPort(ip, port)}`;
}

function endpointText({ ip, port }: ServiceEndpoint): string {
  return withPort(ip, port);
}

function withPort({ family, text }: Ip, port: number): string {
  return family === 'ipv6' ? `[${text}]:${port}` : `${text}:${port}`;
}
