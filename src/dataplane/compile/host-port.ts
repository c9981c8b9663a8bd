import type { Family, Ip } from '../../base/net/ip.ts';
import type { Transport } from '../pipeline/flow.ts';

/** Port of the node that is forwarded to a port of a pod: `portMappings` of CNI, `hostPort` of Kubernetes. */
export interface HostPort {
  readonly transport: Transport;
  /** 1 to 65535, like `containerPort`. */
  readonly hostPort: number;
  readonly containerPort: number;
  /** Address of the node for this port. `0.0.0.0` and `::`: every address of that family; absent: every address of both. */
  readonly hostIp?: Ip;
}

/** Addresses of a host port in one family: every address of the node, or one. */
type HostPortPlace = 'everywhere' | Ip;

/** @returns undefined if it is not in that family */
export function placeOf({ hostIp }: Pick<HostPort, 'hostIp'>, family: Family): HostPortPlace | undefined {
  if (hostIp === undefined) return 'everywhere';
  if (hostIp.family !== family) return undefined;
  return hostIp.value === 0n ? 'everywhere' : hostIp;
}

const families: readonly Family[] = ['ipv4', 'ipv6'];

/** Reports whether a packet could match both. */
export function overlap(one: HostPort, other: HostPort): boolean {
  if (one.transport !== other.transport || one.hostPort !== other.hostPort) return false;
  return families.some((family) => {
    const [a, b] = [placeOf(one, family), placeOf(other, family)];
    if (a === undefined || b === undefined) return false;
    return a === 'everywhere' || b === 'everywhere' || a.text === b.text;
  });
}

/** Returns `8080/tcp`, or with its address `192.0.2.1:8080/tcp`, `[2001:db8::1]:8080/tcp`. */
export function hostPortText({ transport, hostPort, hostIp }: Omit<HostPort, 'containerPort'>): string {
  const at = hostIp === undefined ? '' : hostIp.family === 'ipv4' ? `${hostIp.text}:` : `[${hostIp.text}]:`;
  return `${at}${hostPort}/${transport}`;
}

/** Reason why a host port is not admitted, and the field of `portMappings` that is responsible. */
export interface HostPortRejection {
  readonly field: 'hostIP' | 'hostPort';
  /** Text that follows the field's value in a sentence. */
  readonly reason: string;
}

/** Current state of a host port on this node. */
export interface HostPortState {
  /** Rejected for new pods, and removed from a running pod. */
  readonly forbidden?: HostPortRejection;
  /** A process of the node listens on it: no new pod gets it, and a running pod keeps it. */
  readonly occupied?: HostPortRejection;
  /** The node does not have its address now. */
  readonly isWaiting: boolean;
  /** Addresses excluded from a host port at every address: a process of the node, or the API server, listens on this port of each. */
  readonly kept: readonly Ip[];
}

/** State of a host port without restrictions. */
export const openHostPort: HostPortState = { isWaiting: false, kept: [] };

/** Finds the state of a host port. */
export type HostPortCheck = (hostPort: HostPort) => HostPortState;

/** Returns a sentence with the value of the field and the reason. */
export function rejectionText(hostPort: HostPort, { field, reason }: HostPortRejection): string {
  return `${field === 'hostIP' ? hostPort.hostIp?.text : hostPortText(hostPort)} ${reason}`;
}
