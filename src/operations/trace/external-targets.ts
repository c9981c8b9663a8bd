import { SeineError } from '../../base/errors/seine-error.ts';
import { type Ip, parseIp } from '../../base/net/ip.ts';
import type { NodeEnvironment } from '../../dataplane/compile/environment.ts';
import type { Service } from '../../kubernetes/resources/service.ts';
import type { KernelTranslation } from './kernel-paths.ts';
import type { TraceTarget } from './trace-ends.ts';

/** Service with the addresses by which hosts outside reach it. */
export interface ReachedService extends Pick<Service, 'clusterIps'> {
  readonly type?: Service['type'];
  readonly ports: readonly Pick<Service['ports'][number], 'port' | 'protocol' | 'nodePort'>[];
  readonly externalIps?: Service['externalIps'];
  readonly loadBalancerIngress?: Service['loadBalancerIngress'];
}

interface OwnPlace {
  readonly environment: Pick<NodeEnvironment, 'transport' | 'localAddresses'>;
  readonly translated: KernelTranslation;
}

interface AskedPort {
  readonly protocol: 'tcp' | 'udp' | 'sctp' | 'icmp';
  readonly port?: number;
}

/** Maximum number of addresses of one kind that are traced in each family. */
const ADDRESSES_MAX = 4;

/**
 * Returns the addresses by which hosts outside reach a Service: load balancers' and external ones, and its node port at one address of this
 * node in each family.
 *
 * @param name Service, `service:NAMESPACE/NAME`
 * @throws SeineError `INVALID_INPUT` if there is none, or if the Service does not have the port
 */
export function externalTargets(name: string, service: ReachedService, asked: AskedPort, own: OwnPlace): readonly TraceTarget[] {
  const { ports, externalIps = [], loadBalancerIngress = [] } = service;
  const ofProtocol = ports.filter(({ protocol }) => protocol.toLowerCase() === asked.protocol);
  const [served, byNodePort] = [
    ofProtocol.find(({ port }) => port === asked.port),
    ofProtocol.find(({ nodePort }) => nodePort === asked.port),
  ];
  const addresses: readonly TraceTarget[] = [
    ...limited(loadBalancerIngress.filter(({ ipMode }) => ipMode === 'VIP').map(({ ip }) => parseIp(ip))).map(
      (ip): TraceTarget => ({ ip, way: 'load balancer address' }),
    ),
    ...limited(externalIps.map(parseIp)).map((ip): TraceTarget => ({ ip, way: 'external IP' })),
  ];
  const hasNodePort = ports.some(({ nodePort }) => nodePort !== undefined);
  if (addresses.length === 0 && (!hasNodePort || asked.protocol === 'icmp')) throw unreached(name, service);
  if (asked.protocol === 'icmp') return addresses;
  const port = served ?? byNodePort;
  if (!port)
    throw invalid('port', `${asked.port}/${asked.protocol.toUpperCase()}`, `is no port of ${name}, which has ${portTexts(service)}`);
  const targets = [
    ...(served ? addresses.map((each) => ({ ...each, port: served.port })) : []),
    ...(port.nodePort === undefined ? [] : nodePortTargets(asked.protocol, port.nodePort, own)),
  ];
  if (targets.length === 0) throw invalid('to', name, `has node port ${port.nodePort}, ${closedWhy(service, own)}`);
  return targets;
}

/** Returns why a node port is open at no address of this node. */
function closedWhy({ clusterIps }: ReachedService, { environment: { transport, localAddresses = [] } }: OwnPlace): string {
  const families = new Set(clusterIps.map((ip) => parseIp(ip).family));
  if ([...transport, ...localAddresses].some(({ family }) => families.has(family)))
    return 'which is open at no address of this node: see proxy.nodePortAddresses';
  const names = [...families].map((family) => (family === 'ipv4' ? 'IPv4' : 'IPv6')).join(' and ');
  return `and cluster addresses of ${names} alone: this node has no address of that family`;
}

function limited(ips: readonly Ip[]): readonly Ip[] {
  return (['ipv4', 'ipv6'] as const).flatMap((family) => ips.filter((ip) => ip.family === family).slice(0, ADDRESSES_MAX));
}

/** One address of each family where the node port is served: a Service need not have both families, nor node ports all addresses. */
function nodePortTargets(transport: 'tcp' | 'udp' | 'sctp', port: number, { environment, translated }: OwnPlace): readonly TraceTarget[] {
  const { transport: tunnelEnds, localAddresses = [] } = environment;
  return (['ipv4', 'ipv6'] as const).flatMap((family) => {
    const ip = [...tunnelEnds, ...localAddresses].find((each) => each.family === family && translated(each, transport, port));
    return ip ? [{ ip, port, way: 'node port' as const }] : [];
  });
}

function portTexts({ ports }: ReachedService): string {
  return ports
    .map(({ port, protocol, nodePort }) => `${port}/${protocol}${nodePort === undefined ? '' : ` (node port ${nodePort})`}`)
    .join(', ');
}

function unreached(name: string, { type, clusterIps, loadBalancerIngress = [], ports }: ReachedService): SeineError {
  const [clusterIp] = clusterIps;
  const byProxy = loadBalancerIngress.some(({ ipMode }) => ipMode === 'Proxy')
    ? ', except by its load balancer, which nodes do not serve'
    : '';
  const pending = type === 'LoadBalancer' && byProxy === '' ? ' yet' : '';
  const why = `has no load balancer address${pending}, external IP or node port: no client outside the cluster reaches it${byProxy}`;
  const instead =
    clusterIp === undefined ? '' : `; for a network that routes cluster addresses to a node, trace to ${clusterIp} ${ports[0]?.port ?? ''}`;
  return invalid('to', name, `${why}${instead.trimEnd()}`);
}

function invalid(field: string, value: string, why: string): SeineError {
  return new SeineError('INVALID_INPUT', `${field}: ${JSON.stringify(value)} ${why}`);
}
