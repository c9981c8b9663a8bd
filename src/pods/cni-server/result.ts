import { type Family, isIp, parseIp } from '../../base/net/ip.ts';
import type { CheckRequest } from '../../cni/request.ts';
import type { CniDns, CniResult, CniRoute } from '../../cni/result.ts';
import type { AttachedPod } from '../ipam/attachment.ts';
import type { Lease } from '../ipam/lease.ts';

const noResult: CniResult = { interfaces: [], ips: [], routes: [], dns: {} };

/**
 * Makes the result of ADD: host interface, container interface, its addresses and default routes, added to the result of previous plugins
 * in the chain.
 */
export function resultOf(lease: Lease, attached: AttachedPod, dns: CniDns, previous: CniResult = noResult): CniResult {
  const { hostIfName, hostMac, mtu } = attached;
  const containerEnd = previous.interfaces.length + 1;
  return {
    interfaces: [
      ...previous.interfaces,
      { name: hostIfName, mac: hostMac, mtu },
      { name: lease.ifName, mac: lease.mac, mtu, sandbox: lease.netns },
    ],
    ips: [
      ...previous.ips,
      ...lease.addresses.map(({ ip, prefixLength, gateway }) => ({
        address: `${ip.text}/${prefixLength}`,
        gateway: gateway.text,
        interface: containerEnd,
      })),
    ],
    routes: [...previous.routes, ...routesOf(lease, attached)],
    dns: { ...previous.dns, ...lease.dns, ...dns },
  };
}

function routesOf({ addresses, routes = [] }: Lease, { routeTables = {} }: AttachedPod): readonly CniRoute[] {
  const tableOf = (family: Family) => {
    const table = routeTables[family];
    return table === undefined ? {} : { table };
  };
  return [
    ...addresses.map(({ ip: { family }, gateway }) => ({
      dst: family === 'ipv4' ? '0.0.0.0/0' : '::/0',
      gw: gateway.text,
      ...tableOf(family),
    })),
    ...routes.map(({ destination, gateway }) => ({
      dst: destination.text,
      ...(gateway ? { gw: gateway.text } : {}),
      ...tableOf(destination.family),
    })),
  ];
}

/**
 * Returns the differences between the runtime's stored result and the lease, one sentence each. Later plugins of the chain may have added
 * interfaces, addresses and routes; ours must still be present.
 */
export function differencesFromResult(lease: Lease, { prevResult }: CheckRequest): readonly string[] {
  const differences: string[] = [];
  const own = prevResult.interfaces.find(({ name, sandbox }) => name === lease.ifName && (sandbox ?? '') !== '');
  // Results before version 0.3.0 have no interfaces at all.
  if (prevResult.interfaces.length > 0 && !own) differences.push(`prevResult has no interface ${lease.ifName} in a sandbox`);
  if (own?.mac !== undefined && own.mac.toLowerCase() !== lease.mac)
    differences.push(`prevResult has MAC ${JSON.stringify(own.mac)} for ${lease.ifName}, which was attached with ${lease.mac}`);
  const remembered = new Set(prevResult.ips.map(({ address }) => canonical(address)));
  for (const { ip } of lease.addresses)
    if (!remembered.has(ip.text)) differences.push(`prevResult does not have ${ip.text}, which was allocated to it`);
  return differences;
}

/** Returns the canonical text of an address in `address/length`, or the text itself if it is not an address. */
function canonical(address: string): string {
  const [text = ''] = address.split('/');
  return isIp(text) ? parseIp(text).text : address;
}
