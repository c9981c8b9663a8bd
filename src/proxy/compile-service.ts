import type { Family, Ip } from '../net/ip.ts';
import { ipToBytes } from '../net/ip.ts';
import { ctMark, reg, sourceToCtMark } from '../pipeline/fields.ts';
import type { Bucket, Flow, Transport } from '../pipeline/flow.ts';
import { group, load, priority, resubmit } from '../pipeline/flow.ts';
import type { Mark } from '../pipeline/registers.ts';
import { zones } from '../pipeline/well-known.ts';
import { nothing, type Wanted } from '../wanted/wanted.ts';

/** Where a connection to a Service may end. */
export interface Endpoint {
  readonly ip: Ip;
  readonly port: number;
}

/** One port of one Service on one of its addresses, as this node must serve it. Traffic policy is already applied. */
export interface ServicePort {
  readonly transport: Transport;
  readonly clusterIp: Ip;
  readonly port: number;
  /** Given out when the Service is first seen, and free again only once the switch confirmed the delete. */
  readonly groupId: number;
  /** In any order and of the address's family; the group is ordered by address. */
  readonly endpoints: readonly Endpoint[];
}

/**
 * What the bridge must hold for one Service port, its endpoints' translations excepted (`compileEndpoint`). Pure.
 *
 * A Service with no endpoint still gets a flow: the packet goes to the agent, which answers with a TCP reset or an ICMP
 * port unreachable, so that clients fail at once and do not time out.
 */
export function compileService(service: ServicePort): Wanted {
  const toService = { payload: service.clusterIp.family, protocol: service.transport, ipDst: service.clusterIp, portDst: service.port };
  const balance = (...steps: Flow['steps']): Flow => ({
    table: 'balance',
    priority: priority.normal,
    match: { ...toService, regs: [reg.serviceState('choose')] },
    steps,
  });
  if (service.endpoints.length === 0) return { ...nothing, flows: [balance({ do: 'toAgent', reason: 'noEndpoint' })] };
  return {
    ...nothing,
    groups: [{ id: service.groupId, buckets: service.endpoints.toSorted(byAddress).map(bucket) }],
    flows: [balance(load(reg.rewriteMac('yes')), load(reg.group(service.groupId)), group(service.groupId))],
  };
}

/** Translation to one endpoint. Owned by the endpoint, not by a Service: it is the same whoever chose it. */
export function compileEndpoint(transport: Transport, { ip, port }: Endpoint): Wanted {
  const flow: Flow = {
    table: 'dnat',
    priority: priority.normal,
    match: { payload: ip.family, protocol: transport, regs: [...endpointMarks(ip), reg.endpointPort(port), reg.serviceState('chosen')] },
    steps: [
      {
        do: 'ct',
        zone: zones[ip.family].main,
        commit: true,
        next: 'destinationIdentity',
        nat: { kind: 'dst', ip, port },
        exec: [
          { do: 'mark', mark: ctMark.service('yes') },
          { do: 'moveToMark', ...sourceToCtMark },
        ],
      },
    ],
  };
  return { ...nothing, flows: [flow] };
}

/** Loads made inside a bucket are gone behind the group, so each bucket goes on to the translation by itself. */
function bucket({ ip, port }: Endpoint): Bucket {
  const choice = [...endpointMarks(ip), reg.endpointPort(port), reg.serviceState('chosen')];
  return { weight: 100, steps: [...choice.map(load), resubmit('dnat')] };
}

function endpointMarks(ip: Ip): readonly Mark[] {
  const view = new DataView(ipToBytes(ip).buffer);
  const words: Readonly<Record<Family, () => readonly Mark[]>> = {
    ipv4: () => [reg.endpointIpv4(view.getUint32(0))],
    ipv6: () => [
      reg.endpointIpv6a(view.getUint32(0)),
      reg.endpointIpv6b(view.getUint32(4)),
      reg.endpointIpv6c(view.getUint32(8)),
      reg.endpointIpv6d(view.getUint32(12)),
    ],
  };
  return words[ip.family]();
}

export function byAddress(a: Endpoint, b: Endpoint): number {
  if (a.ip.value === b.ip.value) return a.port - b.port;
  return a.ip.value < b.ip.value ? -1 : 1;
}
