import { existsSync } from 'node:fs';
import { type Place, portsPath, run, runOn } from './host.ts';

/** Links from the lab; the agent manages none of them. */
const wires = new Set(['lo', 'eth0', 'mgmt0', 'br-phy', 'ovs-netdev']);
/** Protocol number of Seine's routes (docs/installation/uninstall.md), as `ip` prints it. */
const ourProtocol = '94';
/** Flags of a link's state, not of its configuration. */
const passing = new Set(['LOWER_UP', 'NO-CARRIER', 'M-DOWN']);

/**
 * Duplicate address detection: the kernel enables it on an interface without ARP, after its MTU was too small for IPv6. The node's ends of
 * pods' pairs have no address.
 */
const detection = /^ipv6\/conf\/(?!all|default|antrea-gw0)[^/]+\/accept_dad:/;

/**
 * Router advertisements on the uplink: an agent that starts while forwarding is off keeps them accepted (docs/operations.md, kernel
 * settings). A fresh agent starts on a node that forwards, and cannot know.
 */
const history = /^ipv6\/conf\/(?:br-phy|eth0)\/accept_ra:/;

/** Secret from which the kernel derives the link-local address of an interface without a MAC, like that of WireGuard; it draws one for each. */
const drawn = /^ipv6\/conf\/antrea-wg0\/stable_secret:/;

type Fields = Readonly<Record<string, unknown>>;
type Execute = (command: string, args: readonly string[]) => Promise<string>;

export async function hostLines(place: Place): Promise<string[]> {
  const execute: Execute = (command, args) => runOn(place, command, ...args);
  const [routes, rules, neighbours, links, settings] = await Promise.all([
    routeLines(execute, (route) => isOurs(route)),
    ruleLines(execute),
    json(execute, ['neighbour', 'show', 'nud', 'permanent']),
    linkLines(execute, (name) => !wires.has(name)),
    settingLines(execute),
  ]);
  return [...routes, ...rules, ...neighbours.map((fields) => `neighbour ${line(fields)}`), ...links, ...settings];
}

/** Inside a pod: its interface, addresses and routes. @param name prefix of the pod's lines */
export async function podLines(name: string, execute: Execute): Promise<string[]> {
  const [links, routes] = await Promise.all([linkLines(execute, () => true), routeLines(execute, () => true)]);
  return [...links, ...routes].map((text) => `in ${name}: ${text}`);
}

/** The far ends of pre-plugged ports. */
export async function farLines(place: Place): Promise<string[]> {
  const path = portsPath(place);
  if (!existsSync(path)) return [];
  const links = await linkLines(
    (command, args) => run('nsenter', [`--net=${path}`, command, ...args]),
    (name) => name !== 'lo',
  );
  return links.map((text) => `far ${text}`);
}

function isOurs({ dev, protocol, type }: Fields): boolean {
  return protocol === ourProtocol || dev === 'antrea-gw0' || (dev === undefined && type !== undefined);
}

/** The kernel adds it after duplicate address detection; addresses are compared. */
function followsAddress({ table, protocol }: Fields): boolean {
  return table === 'local' && protocol === 'kernel';
}

async function routeLines(execute: Execute, wanted: (route: Fields) => boolean): Promise<string[]> {
  const both = await Promise.all(['-4', '-6'].map((family) => json(execute, ['-d', family, 'route', 'show', 'table', 'all'])));
  return both
    .flat()
    .filter((route) => wanted(route) && !followsAddress(route))
    .map((fields) => `route ${line({ ...fields, flags: notPassing(fields['flags'], 'linkdown', 'dead') })}`);
}

async function ruleLines(execute: Execute): Promise<string[]> {
  const both = await Promise.all(['-4', '-6'].map(async (family) => [family, await json(execute, [family, 'rule', 'show'])] as const));
  return both.flatMap(([family, rules]) => rules.map((fields) => `rule ${family} ${line(fields)}`));
}

/** Configured links, and their addresses. */
async function linkLines(execute: Execute, wanted: (name: string) => boolean): Promise<string[]> {
  const all = await json(execute, ['-d', 'address', 'show']);
  return all
    .filter(({ ifname }) => wanted(String(ifname)))
    .flatMap(({ ifname, mtu, flags, ifalias, linkinfo, master, address, addr_info, xdp }) => {
      const kind = (linkinfo as { info_kind?: string } | undefined)?.info_kind;
      // The kernel's random MAC of the node's end of a pod's pair is not used.
      const mac = ifname === 'antrea-gw0' || ifname === 'eth0' ? address : undefined;
      const set = { mtu, flags: notPassing(flags, ...passing), ifalias, kind, master, mac, xdp };
      const own = mac === undefined ? linkLocalOf(String(address)) : undefined;
      const addresses = (ifname === 'antrea-wg0' ? [] : (addr_info as Fields[])).map(
        ({ local, prefixlen, scope }) => `address ${ifname} ${local === own ? 'of its MAC' : local}/${prefixlen} ${scope}`,
      );
      return [`link ${ifname} ${line(set)}`, ...addresses];
    });
}

/** The link-local address that the kernel derives from a MAC, in its notation (RFC 4291 appendix A). */
export function linkLocalOf(mac: string): string {
  const [first = 0, ...rest] = mac.split(':').map((byte) => Number.parseInt(byte, 16));
  const bytes = [first ^ 0x02, ...rest.slice(0, 2), 0xff, 0xfe, ...rest.slice(2)];
  const groups = [0, 2, 4, 6].map((at) => (((bytes[at] ?? 0) << 8) | (bytes[at + 1] ?? 0)).toString(16));
  return `fe80::${groups.join(':').replace(/^(?:0:)+/, '')}`;
}

/** Kernel settings of the node, of its interfaces, and of forwarding. */
async function settingLines(execute: Execute): Promise<string[]> {
  const folders = 'ipv4/conf ipv6/conf ipv4/ip_forward';
  const read = await execute('sh', ['-c', `cd /proc/sys/net && grep -rs . ${folders}; true`]);
  return read
    .split('\n')
    .filter((text) => text !== '' && !detection.test(text) && !history.test(text) && !drawn.test(text))
    .map((text) => `sysctl ${text}`);
}

async function json(execute: Execute, args: readonly string[]): Promise<Fields[]> {
  const text = await execute('ip', ['-j', ...args]);
  return text.trim() === '' ? [] : (JSON.parse(text) as Fields[]);
}

function notPassing(flags: unknown, ...left: readonly string[]): string {
  return Array.isArray(flags)
    ? flags
        .filter((flag) => !left.includes(String(flag)))
        .toSorted()
        .join()
    : '';
}

function line(fields: Fields): string {
  return Object.entries(fields)
    .filter(([, value]) => value !== undefined && value !== '')
    .map(([name, value]) => `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`)
    .toSorted()
    .join(' ');
}
