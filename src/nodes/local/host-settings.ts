import type { Family } from '../../base/net/ip.ts';
import { familiesOf, type NodeEnvironment } from '../../dataplane/compile/environment.ts';
import { type SettingKey, settingKey, tapChecksumKey } from '../../dataplane/targets/host/setting-key.ts';
import type { NodeState } from '../../dataplane/targets/node-state.ts';
import { readSysctl, type SysctlName } from '../../netlink/sysctl.ts';
import { carrierOf, type HostInterface } from './node-environment.ts';

export interface HostSetting {
  readonly name: SysctlName;
  readonly value: string;
  readonly why: string;
}

/**
 * Returns the kernel settings of the node without which packets are lost, or pods could misuse the node; `docs/operations.md` lists them
 * for administrators.
 *
 * @param hostPortsAtLoopback omitted while unknown
 */
export function hostSettings(families: readonly Family[], gateway: string, hostPortsAtLoopback?: boolean): readonly HostSetting[] {
  const ipv4: readonly HostSetting[] = [
    { name: ['net', 'ipv4', 'ip_forward'], value: '1', why: 'pods reach external addresses through the node' },
    { name: ['net', 'ipv4', 'conf', gateway, 'forwarding'], value: '1', why: 'packets from pods are forwarded' },
    // Replies of a Service come from an address that no route of the interface names.
    { name: ['net', 'ipv4', 'conf', gateway, 'rp_filter'], value: '2', why: 'replies of Services take another path than requests' },
    ...(hostPortsAtLoopback === undefined ? [] : [routeLocalnet(gateway, hostPortsAtLoopback)]),
    { name: ['net', 'ipv4', 'conf', gateway, 'send_redirects'], value: '0', why: 'the gateway is the right next hop' },
    { name: ['net', 'ipv4', 'conf', gateway, 'accept_redirects'], value: '0', why: 'pods must not redirect the node’s packets' },
    { name: ['net', 'ipv4', 'conf', gateway, 'accept_source_route'], value: '0', why: 'pods must not source-route their packets' },
  ];
  const ipv6: readonly HostSetting[] = [
    { name: ['net', 'ipv6', 'conf', 'all', 'forwarding'], value: '1', why: 'pods reach external addresses through the node' },
    { name: ['net', 'ipv6', 'conf', gateway, 'disable_ipv6'], value: '0', why: 'without IPv6 it loses its addresses and routes' },
    { name: ['net', 'ipv6', 'conf', gateway, 'accept_ra'], value: '0', why: 'the bridge has no router for the node' },
    { name: ['net', 'ipv6', 'conf', gateway, 'accept_redirects'], value: '0', why: 'pods must not redirect the node’s packets' },
    { name: ['net', 'ipv6', 'conf', gateway, 'accept_source_route'], value: '-1', why: 'pods must not source-route their packets' },
  ];
  return [...(families.includes('ipv4') ? ipv4 : []), ...(families.includes('ipv6') ? ipv6 : [])];
}

function routeLocalnet(gateway: string, hostPortsAtLoopback: boolean): HostSetting {
  const why =
    'host ports at 127.0.0.1 are served for the node’s own programs: 1 while a pod has one. Packets for them from the gateway are dropped';
  return { name: ['net', 'ipv4', 'conf', gateway, 'route_localnet'], value: hostPortsAtLoopback ? '1' : '0', why };
}

/** Part of `NodeState` that has the settings. */
type SettingsState = Pick<NodeState, 'wantSettings'>;

/** Sets the kernel settings for the node's current environment. */
export function wantHostSettings(
  environment: NodeEnvironment,
  { interfaces, hostPortsAtLoopback }: { readonly interfaces: readonly HostInterface[]; readonly hostPortsAtLoopback?: boolean },
  state: SettingsState,
): void {
  const transport = carrierOf(environment.transport, interfaces);
  const families = familiesOf(environment);
  const kept = families.includes('ipv6') && transport !== undefined ? keptRouterAdvertisements(transport) : [];
  const all = [...kept, ...hostSettings(families, environment.gateway.name, hostPortsAtLoopback)];
  const ofDirect = environment.directPackets ? directSettings(environment, transport) : [];
  const ofDevice = environment.wireGuard ? deviceSettings(environment, environment.wireGuard.device) : [];
  const wanted = new Map<SettingKey, string>([...all, ...ofDirect, ...ofDevice].map(({ name, value }) => [settingKey(name), value]));
  for (const device of [environment.gateway.name, ...(transport === undefined ? [] : [transport])])
    wanted.set(tapChecksumKey(device), 'off');
  state.wantSettings(wanted);
}

/** Returns the part of an environment on which the settings depend: they have to be set again when it has changed. */
export function settingsInput(environment: NodeEnvironment): string {
  const { gateway, transport, directPackets = false, wireGuard } = environment;
  const addresses = transport.map(({ text }) => text).join();
  return `${familiesOf(environment).join()} ${gateway.name} ${addresses} ${directPackets} ${wireGuard?.device ?? 'none'}`;
}

/**
 * Settings of the WireGuard device. While two nodes change their modes, a peer's packets arrive by another way than this node's leave. The
 * device has no IPv4 address, and on such an interface loose `rp_filter` (2) is as strict as 1 (`__fib_validate_source` in
 * net/ipv4/fib_frontend.c). WireGuard itself accepts only a peer's own addresses.
 */
function deviceSettings(environment: NodeEnvironment, device: string): readonly HostSetting[] {
  const families = familiesOf(environment);
  const ofIpv4: readonly HostSetting[] = [
    { name: ['net', 'ipv4', 'conf', device, 'rp_filter'], value: '0', why: 'peers may send by another way than this node does' },
    { name: ['net', 'ipv4', 'conf', device, 'forwarding'], value: '1', why: 'packets between pods and peers are forwarded' },
  ];
  return [...(families.includes('ipv4') ? ofIpv4 : []), ...(families.includes('ipv6') ? [notAnycast(environment)] : [])];
}

/**
 * Returns settings that keep a learnt default route. Enabling forwarding makes Linux ignore router advertisements, and with them the route:
 * where one was accepted before, `accept_ra` becomes 2, and stays that (`Documentation/networking/ip-sysctl`).
 *
 * @param transport interface that carries the node's own traffic
 */
function keptRouterAdvertisements(transport: string): readonly HostSetting[] {
  const name: SysctlName = ['net', 'ipv6', 'conf', transport, 'accept_ra'];
  const value = tryRead(name);
  const forwarding = tryRead(['net', 'ipv6', 'conf', 'all', 'forwarding']);
  const isKept = value === '2' || (value === '1' && forwarding === '0');
  return isKept ? [{ name, value: '2', why: 'the node learns its default route by router advertisement' }] : [];
}

/**
 * Returns settings for packets of pods that arrive without a tunnel.
 *
 * Strict `rp_filter` of the transport interface drops the packets of a peer that this node still reaches through the tunnel; loose (2)
 * accepts them, and 0 stays. On an IPv6 router the address of the pod network itself is the subnet-router anycast address, to which the
 * kernel would respond; packets of other nodes for Services have it as their source, and replies to it are for the bridge. Without
 * forwarding on the gateway it is not, and packets are still forwarded, by the setting of all interfaces.
 */
function directSettings(environment: NodeEnvironment, transport: string | undefined): readonly HostSetting[] {
  const families = familiesOf(environment);
  return [
    ...(families.includes('ipv4') && transport !== undefined ? looseReversePath(transport) : []),
    ...(families.includes('ipv6') ? [notAnycast(environment)] : []),
  ];
}

function notAnycast({ gateway }: NodeEnvironment): HostSetting {
  const why = 'replies to the address of the pod network are for the bridge, not for the node';
  return { name: ['net', 'ipv6', 'conf', gateway.name, 'forwarding'], value: '0', why };
}

function looseReversePath(transport: string): readonly HostSetting[] {
  const name: SysctlName = ['net', 'ipv4', 'conf', transport, 'rp_filter'];
  const [all, own] = [tryRead(['net', 'ipv4', 'conf', 'all', 'rp_filter']), tryRead(name)];
  const isStrict = own === '1' || (all === '1' && own === '0');
  if (!isStrict && own !== '2') return [];
  return [{ name, value: '2', why: 'packets of a peer arrive without a tunnel while this node reaches it through one' }];
}

function tryRead(name: SysctlName): string | undefined {
  try {
    return readSysctl(name).trim();
  } catch {
    return undefined; // no such interface, or no IPv6: nothing to keep
  }
}
