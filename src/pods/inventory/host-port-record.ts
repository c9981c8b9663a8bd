import { parseIp } from '../../base/net/ip.ts';
import type { HostPort } from '../../dataplane/compile/host-port.ts';

/** Formats host ports for `external_ids` of a pod's port: `tcp 8080 80` or `tcp 8080 80 192.0.2.1`, separated by commas. */
export function hostPortsText(hostPorts: readonly HostPort[]): string {
  return hostPorts
    .map(({ transport, hostPort, containerPort, hostIp }) =>
      [transport, hostPort, containerPort, ...(hostIp ? [hostIp.text] : [])].join(' '),
    )
    .join(',');
}

/** Parses host ports and skips invalid ones: a pod without a host port is better than no pod. */
export function hostPortsIn(text: string | undefined): readonly HostPort[] {
  return (text ?? '').split(',').flatMap((each): readonly HostPort[] => {
    const [transport, ...rest] = each.split(' ');
    const [hostPort, containerPort] = rest.slice(0, 2).map(Number);
    if (transport !== 'tcp' && transport !== 'udp' && transport !== 'sctp') return [];
    if (!isPort(hostPort) || !isPort(containerPort)) return [];
    const [, , address] = rest;
    try {
      const found: HostPort = { transport, hostPort, containerPort, ...(address === undefined ? {} : { hostIp: parseIp(address) }) };
      return [found];
    } catch {
      return []; // not an address
    }
  });
}

function isPort(number: number | undefined): number is number {
  return number !== undefined && Number.isInteger(number) && number > 0 && number <= 65_535;
}
