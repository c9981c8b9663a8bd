import { parseIp } from '../../base/net/ip.ts';
import { CniError, cniCodes } from '../../cni/errors.ts';
import { show } from '../../cni/json.ts';
import type { PortMapping } from '../../cni/network-conf.ts';
import { type HostPort, type HostPortCheck, hostPortText, overlap, rejectionText } from '../../dataplane/compile/host-port.ts';
import type { AttachmentKey, PodAddress } from '../ipam/attachment.ts';
import { attachmentId, type Lease, podName } from '../ipam/lease.ts';

/** Host ports claimed by a pod that is being attached. */
interface HostPortClaim {
  readonly hostPorts: readonly HostPort[];
  /** Ends the claim: from now on the pod's lease counts, if there is one. */
  end(): void;
}

/**
 * Allocates host ports, each to one attachment. Allocated ports are stored in the leases; this class has only those between the claim and
 * the lease.
 */
export class HostPortClaims {
  readonly #leases: () => readonly Lease[];
  readonly #check: HostPortCheck;
  readonly #claimed = new Map<string, Pick<Lease, 'pod' | 'containerId' | 'hostPorts'>>();

  constructor(leases: () => readonly Lease[], check: HostPortCheck) {
    this.#leases = leases;
    this.#check = check;
  }

  /** Claims the host ports of an attachment. @throws CniError 7 that names field, value and owner */
  claim(wanted: {
    readonly attachment: AttachmentKey;
    readonly pod?: Lease['pod'];
    readonly portMappings: readonly PortMapping[];
  }): HostPortClaim {
    const { attachment, pod, portMappings } = wanted;
    const asked = portMappings.flatMap((mapping, at) =>
      mapping.hostPort === 0 ? [] : [{ field: fieldOf(at), hostPort: parsed(mapping, at) }],
    );
    if (asked.length === 0) return { hostPorts: [], end: () => {} };
    const taken = this.#taken();
    const hostPorts: HostPort[] = [];
    for (const { field, hostPort } of asked) {
      const rivals = taken.get(keyOf(hostPort)) ?? [];
      if (rivals.some((rival) => rival.whose === undefined && isSame(rival.hostPort, hostPort))) continue; // named twice
      const rival = rivals.find((each) => overlap(each.hostPort, hostPort));
      if (rival)
        throw new CniError(
          cniCodes.invalidConfig,
          `${field}.hostPort: ${hostPortText(hostPort)} belongs to ${rival.whose ?? 'this pod already'}`,
        );
      const { forbidden, occupied } = this.#check(hostPort);
      const rejection = forbidden ?? occupied;
      if (rejection) throw new CniError(cniCodes.invalidConfig, `${field}.${rejection.field}: ${rejectionText(hostPort, rejection)}`);
      taken.set(keyOf(hostPort), [...rivals, { hostPort, whose: undefined }]);
      hostPorts.push(hostPort);
    }
    const id = attachmentId(attachment);
    this.#claimed.set(id, { ...(pod ? { pod } : {}), containerId: attachment.containerId, hostPorts });
    return { hostPorts, end: () => void this.#claimed.delete(id) };
  }

  /** Returns host ports of others by transport and port. */
  #taken(): Map<string, readonly { readonly hostPort: HostPort; readonly whose: string | undefined }[]> {
    const leased = this.#leases().filter(({ state }) => state === 'allocated');
    const taken = new Map<string, { readonly hostPort: HostPort; readonly whose: string | undefined }[]>();
    for (const holder of [...leased, ...this.#claimed.values()])
      for (const hostPort of holder.hostPorts ?? []) {
        const there = taken.get(keyOf(hostPort)) ?? [];
        there.push({ hostPort, whose: `pod ${podName(holder)}` });
        taken.set(keyOf(hostPort), there);
      }
    return taken;
  }
}

/** Checks that the pod has an address of the family of each host port; otherwise it could not be reached there. @throws CniError 7 */
export function assertReached(hostPorts: readonly HostPort[], addresses: readonly PodAddress[]): void {
  for (const each of hostPorts) {
    const { hostIp } = each;
    if (hostIp === undefined || hostIp.value === 0n || addresses.some(({ ip }) => ip.family === hostIp.family)) continue;
    const family = hostIp.family === 'ipv4' ? 'IPv4' : 'IPv6';
    throw new CniError(
      cniCodes.invalidConfig,
      `runtimeConfig.portMappings: ${hostPortText(each)} is ${family}, and the pod has no address of this family`,
    );
  }
}

function parsed({ hostPort, containerPort, protocol, hostIp }: PortMapping, at: number): HostPort {
  if (containerPort === 0) throw new CniError(cniCodes.invalidConfig, `${fieldOf(at)}.containerPort: 0 is not a port of a pod`);
  const where = { transport: protocol, hostPort, containerPort };
  if (hostIp === '') return where;
  try {
    return { ...where, hostIp: parseIp(hostIp) };
  } catch {
    throw new CniError(cniCodes.invalidConfig, `${fieldOf(at)}.hostIP: ${show(hostIp)} is not an IP address`);
  }
}

function fieldOf(at: number): string {
  return `runtimeConfig.portMappings[${at}]`;
}

function keyOf({ transport, hostPort }: HostPort): string {
  return `${transport} ${hostPort}`;
}

function isSame(a: HostPort, b: HostPort): boolean {
  return a.containerPort === b.containerPort && a.hostIp?.text === b.hostIp?.text;
}
