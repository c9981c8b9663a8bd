import { cidrContains, parseIp } from '../../base/net/ip.ts';
import { parseMac } from '../../base/net/mac.ts';
import type { RateLimit } from '../../dataplane/compile/compile-pod.ts';
import type { WantedPort } from '../../dataplane/desired/switch-row.ts';
import type { Link } from '../../netlink/links.ts';
import type { AttachedLease } from '../ipam/attached-lease.ts';
import type { PodAddress, PodAttachment } from '../ipam/attachment.ts';
import type { Pool } from '../ipam/lease.ts';
import { hostPortsIn, hostPortsText } from './host-port-record.ts';

/** Makes a pod's port on the bridge. Its `external_ids` have all that is needed to identify the pod if the journal is lost. */
export function portOfPod(want: PodAttachment, name: string, ofPort: number): WantedPort {
  const externalIds = {
    'container-id': want.containerId,
    'if-name': want.ifName,
    network: want.network,
    netns: want.netns,
    mac: want.mac,
    ip: want.addresses.map(({ ip }) => ip.text).join(','),
    ...limitIds('egress', want.egress),
    ...limitIds('ingress', want.ingress),
    ...(want.limits ? { limits: want.limits } : {}),
    ...(want.hostPorts?.length ? { 'host-ports': hostPortsText(want.hostPorts) } : {}),
    ...(want.pod ? { 'pod-namespace': want.pod.namespace, 'pod-name': want.pod.name } : {}),
  };
  return { name, type: '', ofPort, options: {}, externalIds };
}

/**
 * Makes the lease of the pod that `portOfPod` described.
 *
 * @returns undefined if the port does not belong to a pod, or its addresses are not from `pools`
 * @throws SeineError `INVALID_INPUT` if an address is invalid
 */
export function leaseFromPort(
  ids: ReadonlyMap<string, string>,
  { name, mac: hostMac, mtu }: Link,
  pools: readonly Pool[],
): Omit<AttachedLease, 'serial' | 'state'> | undefined {
  const [containerId, ifName, network, netns] = ['container-id', 'if-name', 'network', 'netns'].map((key) => ids.get(key));
  const [mac, ips, namespace, podName] = ['mac', 'ip', 'pod-namespace', 'pod-name'].map((key) => ids.get(key));
  if (!containerId || !ifName || !network || !netns || !mac || !ips || !hostMac) return undefined;
  const addresses = ips.split(',').map((text) => addressIn(pools, text));
  if (!addresses.every((address) => address !== undefined)) return undefined;
  const pod = namespace && podName ? { pod: { namespace, name: podName, uid: '' } } : {};
  const attached = { hostIfName: name, hostMac, mtu };
  const found = hostPortsIn(ids.get('host-ports'));
  const hostPorts = found.length > 0 ? { hostPorts: found } : {};
  return { containerId, ifName, network, netns, mac: parseMac(mac), addresses, ...pod, ...limitsIn(ids), ...hostPorts, attached };
}

type LimitDirection = 'egress' | 'ingress';

function limitIds(direction: LimitDirection, limit: RateLimit | undefined): Record<string, string> {
  return limit ? { [`${direction}-rate`]: String(limit.rate), [`${direction}-burst`]: String(limit.burst) } : {};
}

function limitsIn(ids: ReadonlyMap<string, string>): Pick<PodAttachment, LimitDirection | 'limits'> {
  const [egress, ingress] = [limitIn(ids, 'egress'), limitIn(ids, 'ingress')];
  return {
    ...(egress ? { egress } : {}),
    ...(ingress ? { ingress } : {}),
    ...(ids.get('limits') === 'both' ? { limits: 'both' as const } : {}),
  };
}

/** Parses a limit and ignores invalid numbers: a pod without its limit is better than no pod. */
function limitIn(ids: ReadonlyMap<string, string>, direction: LimitDirection): RateLimit | undefined {
  const [rate = 0, burst = 0] = ['rate', 'burst'].map((key) => {
    const text = ids.get(`${direction}-${key}`) ?? '';
    return /^[1-9]\d{0,15}$/.test(text) ? Number(text) : 0;
  });
  return rate > 0 && burst > 0 ? { rate, burst } : undefined;
}

function addressIn(pools: readonly Pool[], text: string): PodAddress | undefined {
  const ip = parseIp(text);
  const pool = pools.find(({ cidr }) => cidr.family === ip.family && cidrContains(cidr, ip));
  return pool && { ip, prefixLength: pool.cidr.prefixLength, gateway: pool.gateway };
}
