import { SeineError } from '../errors/seine-error.ts';
import type { Log } from '../log/log.ts';
import type { Family } from '../net/ip.ts';
import { readSysctl, type SysctlName, writeSysctl } from '../netlink/sysctl.ts';

export interface HostSetting {
  readonly name: SysctlName;
  readonly value: string;
  readonly why: string;
}

/** Kernel settings of the node without which packets are lost, or pods could misuse the node; `docs/operations.md` lists them for administrators. */
export function hostSettings(families: readonly Family[], gateway: string): readonly HostSetting[] {
  const ipv4: readonly HostSetting[] = [
    { name: ['net', 'ipv4', 'ip_forward'], value: '1', why: 'pods reach the world through the node' },
    // Answers to a Service come from an address that no route of the interface names.
    { name: ['net', 'ipv4', 'conf', gateway, 'rp_filter'], value: '2', why: 'replies of Services take another way than requests' },
    { name: ['net', 'ipv4', 'conf', gateway, 'send_redirects'], value: '0', why: 'the gateway is the right next hop' },
    { name: ['net', 'ipv4', 'conf', gateway, 'accept_redirects'], value: '0', why: 'no pod says where the node sends packets' },
    { name: ['net', 'ipv4', 'conf', gateway, 'accept_source_route'], value: '0', why: 'no pod says which way its packets take' },
  ];
  const ipv6: readonly HostSetting[] = [
    { name: ['net', 'ipv6', 'conf', 'all', 'forwarding'], value: '1', why: 'pods reach the world through the node' },
    { name: ['net', 'ipv6', 'conf', gateway, 'accept_ra'], value: '0', why: 'nobody on the bridge is a router for the node' },
    { name: ['net', 'ipv6', 'conf', gateway, 'accept_redirects'], value: '0', why: 'no pod says where the node sends packets' },
    { name: ['net', 'ipv6', 'conf', gateway, 'accept_source_route'], value: '-1', why: 'no pod says which way its packets take' },
  ];
  return [...(families.includes('ipv4') ? ipv4 : []), ...(families.includes('ipv6') ? ipv6 : [])];
}

/**
 * Makes the node forward. What cannot be written is reported with the command that an administrator can run.
 *
 * Turning on forwarding makes Linux ignore router advertisements, and with them a default route learnt that way: where one was
 * accepted before, `accept_ra` becomes 2 (`Documentation/networking/ip-sysctl`).
 *
 * @param transport interface that carries the node's own traffic
 */
export function applyHostSettings(
  families: readonly Family[],
  { gateway, transport }: { readonly gateway: string; readonly transport: string | undefined },
  log: Log,
): void {
  if (families.includes('ipv6') && transport !== undefined) keepRouterAdvertisements(transport, log);
  for (const setting of hostSettings(families, gateway)) ensure(setting, log);
}

function keepRouterAdvertisements(transport: string, log: Log): void {
  const name: SysctlName = ['net', 'ipv6', 'conf', transport, 'accept_ra'];
  const value = tryRead(name);
  const forwarding = tryRead(['net', 'ipv6', 'conf', 'all', 'forwarding']);
  if (value === '1' && forwarding === '0')
    ensure({ name, value: '2', why: 'the node learns its default route by router advertisement' }, log);
}

function tryRead(name: SysctlName): string | undefined {
  try {
    return readSysctl(name).trim();
  } catch {
    return undefined; // no such interface, or no IPv6: nothing to keep
  }
}

function ensure({ name, value, why }: HostSetting, log: Log): void {
  const text = name.join('/');
  try {
    const before = readSysctl(name).trim();
    if (before === value) return;
    writeSysctl(name, value);
    log.info('kernel setting changed', { setting: text, before, after: value, why });
  } catch (thrown) {
    log.error('a kernel setting is wrong and cannot be changed', {
      setting: text,
      run: `sysctl -w ${text.replaceAll('/', '.')}=${value}`,
      why,
      cause: SeineError.from(thrown, text).message,
    });
  }
}
