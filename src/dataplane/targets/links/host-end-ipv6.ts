import { readSysctl, writeSysctl } from '../../../netlink/sysctl.ts';
import type { PodLink } from '../../desired/pod-link.ts';

/** Host end of a pair. */
interface NodeEnd {
  readonly hostName: string;
  readonly hostEnd: PodLink['hostEnd'];
}

/** Reports whether the host end has no IPv6, if it is only a port of the bridge. */
export function hasNoIpv6({ hostName, hostEnd }: NodeEnd): boolean {
  if (hostEnd === 'plain') return true;
  try {
    return readSysctl(ipv6Setting(hostName)) === '1';
  } catch {
    return true; // a kernel without IPv6, or the interface was just deleted
  }
}

/**
 * Disables IPv6 on the host end. Call after its MTU was set: with an MTU too small for IPv6 the kernel drops the setting, and starts from
 * its default when the MTU is corrected.
 */
export function keepFromIpv6(end: NodeEnd): void {
  if (!hasNoIpv6(end)) writeSysctl(ipv6Setting(end.hostName), 1);
}

function ipv6Setting(hostName: string): readonly string[] {
  return ['net', 'ipv6', 'conf', hostName, 'disable_ipv6'];
}
