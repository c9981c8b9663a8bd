import type { Family, Ip } from '../net/ip.ts';
import type { Transport } from '../pipeline/flow.ts';

/** A port of the node that leads to a port of a pod: `portMappings` of CNI, `hostPort` of Kubernetes. */
export interface HostPort {
  readonly transport: Transport;
  /** 1 to 65535, as `containerPort`. */
  readonly hostPort: number;
  readonly containerPort: number;
  /** The node's address that it is at. `0.0.0.0` and `::`: every address of that family; absent: every address of both. */
  readonly hostIp?: Ip;
}

/** Where a host port is in one family: at every address of the node, or at one. */
type HostPortPlace = 'everywhere' | Ip;

/** @returns undefined if it is not in that family */
export function placeOf({ hostIp }: Pick<HostPort, 'hostIp'>, family: Family): HostPortPlace | undefined {
  if (hostIp === undefined) return 'everywhere';
  if (hostIp.family !== family) return undefined;
  return hostIp.value === 0n ? 'everywhere' : hostIp;
}

const families: readonly Family[] = ['ipv4', 'ipv6'];

/** Whether a packet could be for both. */
export function overlap(one: HostPort, other: HostPort): boolean {
  if (one.transport !== other.transport || one.hostPort !== other.hostPort) return false;
  return families.some((family) => {
    const [a, b] = [placeOf(one, family), placeOf(other, family)];
    if (a === undefined || b === undefined) return false;
    return a === 'everywhere' || b === 'everywhere' || a.text === b.text;
  });
}

/** `8080/tcp`, or with its address `192.0.2.1:8080/tcp`, `[2001:db8::1]:8080/tcp`. */
export function hostPortText({ transport, hostPort, hostIp }: Omit<HostPort, 'containerPort'>): string {
  const at = hostIp === undefined ? '' : hostIp.family === 'ipv4' ? `${hostIp.text}:` : `[${hostIp.text}]:`;
  return `${at}${hostPort}/${transport}`;
}
