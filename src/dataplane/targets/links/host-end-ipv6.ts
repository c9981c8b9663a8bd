import { readSysctl, writeSysctl } from '../../../netlink/sysctl.ts';
import type { PodLink } from '../../desired/pod-link.ts';

/** The node's end of a pair. */
interface NodeEnd {
  readonly hostName: string;
  readonly hostEnd: PodLink['hostEnd'];
}

/** Whether the node's end is without IPv6 where it is only there for the bridge. */
export function hasNoIpv6({ hostName, hostEnd }: NodeEnd): boolean {
  if (hostEnd === 'plain') return true;
  try {
    return readSysctl(ipv6Setting(hostName)) === '1';
  } catch {
    return true; // a kernel without IPv6, or the interface has just gone
  }
}

/** After its MTU was set: with one that is too small for IPv6 the kernel forgets the setting, and begins with its default where that is mended. */
export function keepFromIpv6(end: NodeEnd): void {
  if (!hasNoIpv6(end)) writeSysctl(ipv6Setting(end.hostName), 1);
}

function ipv6Setting(hostName: string): readonly string[] {
  return ['net', 'ipv6', 'conf', hostName, 'disable_ipv6'];
}
