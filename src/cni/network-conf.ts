import { isCniName } from './environment.ts';
import { CniError, cniCodes } from './errors.ts';
import {
  asInteger,
  asList,
  asObject,
  asString,
  asStrings,
  isObject,
  type JsonObject,
  type JsonValue,
  member,
  memberAnyCase,
  parseObject,
  show,
} from './json.ts';
import { type CniDns, parseDns } from './result.ts';
import { type CniCommand, type CniVersion, parseVersion } from './versions.ts';

/** Settings that the plugin itself needs to reach its agent; all are optional. */
export interface PluginSettings {
  readonly agentSocket: string;
  readonly stateDir: string;
  /** Maximum duration of a call (ms), including retries while the agent restarts. */
  readonly deadlineMs: number;
}

/** Part of the network configuration that every command reads. */
export interface NetworkConf {
  readonly cniVersion: CniVersion;
  readonly network: string;
  readonly settings: PluginSettings;
  /** Whole configuration, for members that only some commands read. */
  readonly json: JsonObject;
}

const defaultAgentSocket = '/run/seine/cni.sock';
const defaultStateDir = '/var/lib/seine';
const defaultDeadlineSeconds = 30;
const deadlineSecondsMax = 600;
/**
 * Maximum length of a socket path: `sun_path` is 108 bytes with its zero (unix(7)); checked again, in bytes, when the address is created.
 */
const socketPathMax = 107;

/**
 * @param stdin at most 1 MiB, limited by its reader
 * @throws CniError 6 for undecodable input, 1 for the version, 7 for the rest
 */
export function parseNetworkConf(stdin: string, command: CniCommand): NetworkConf {
  const json = parseObject(stdin, 'network configuration');
  const version = asString(member(json, 'cniVersion'), 'cniVersion', cniCodes.undecodable) ?? '';
  const network = asString(member(json, 'name'), 'name', cniCodes.undecodable) ?? '';
  if (network === '') throw new CniError(cniCodes.invalidConfig, 'name: the network has no name');
  if (!isCniName(network) || network.length > 255)
    throw new CniError(cniCodes.invalidConfig, `name: ${show(network)} is not a network name`);
  return { cniVersion: parseVersion(version, command), network, settings: parseSettings(json), json };
}

function parseSettings(json: JsonObject): PluginSettings {
  const agentSocket = absolutePath(json, 'agentSocket', socketPathMax) ?? defaultAgentSocket;
  const stateDir = absolutePath(json, 'stateDir', 3000) ?? defaultStateDir;
  const seconds = member(json, 'deadline') ?? defaultDeadlineSeconds;
  if (typeof seconds !== 'number' || !(seconds > 0 && seconds <= deadlineSecondsMax))
    throw new CniError(cniCodes.invalidConfig, `deadline: ${show(seconds)} is not a number of seconds up to ${deadlineSecondsMax}`);
  return { agentSocket, stateDir, deadlineMs: Math.ceil(seconds * 1000) };
}

function absolutePath(json: JsonObject, key: string, lengthMax: number): string | undefined {
  const path = asString(member(json, key), key);
  if (path === undefined) return undefined;
  if (path[0] !== '/' || path.length > lengthMax || hasControls(path))
    throw new CniError(cniCodes.invalidConfig, `${key}: ${show(path)} is not an absolute path of at most ${lengthMax} characters`);
  return path;
}

/** Reports whether a text has control characters. Paths are printed: they must not affect a terminal or look like another log line. */
function hasControls(text: string): boolean {
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (unit < 0x20 || (unit >= 0x7f && unit <= 0x9f)) return true;
  }
  return false;
}

/** Additional fields of ADD. */
export interface AddConf {
  /** Absent: the agent's own IPAM. Otherwise the name of a plugin in CNI_PATH. */
  readonly ipamType?: string;
  readonly dns: CniDns;
  readonly portMappings: readonly PortMapping[];
  /** Addresses requested in the configuration, without a prefix length. */
  readonly ips: readonly RequestedIp[];
  readonly mac?: RequestedIp;
  readonly egress?: Bandwidth;
  /** Present if no later plugin of the chain limits bandwidth (`bandwidth: both`). */
  readonly limits?: 'both';
  /** Only with `limits`. */
  readonly ingress?: Bandwidth;
}

/** Token bucket. */
interface Bandwidth {
  /** Bits per second, more than 0. */
  readonly rate: number;
  /** Burst in bits, more than 0. */
  readonly burst: number;
}

/** Requested value with its field, so that an error can name both. */
export interface RequestedIp {
  readonly text: string;
  /** e.g. `runtimeConfig.ips[0]`; a field that begins with `CNI_ARGS` is an error of that variable. */
  readonly field: string;
}

export interface PortMapping {
  readonly hostPort: number;
  readonly containerPort: number;
  readonly protocol: 'tcp' | 'udp' | 'sctp';
  /** Empty: every address of the node. */
  readonly hostIp: string;
}

/**
 * @throws CniError 7 for a value of the wrong form, 2 for a field with an unsupported request, which is refused rather than ignored.
 *   Unknown fields are ignored, as runtimes and chains add their own.
 */
export function parseAddConf(json: JsonObject): AddConf {
  refuse(json, ['mtu'], 'the agent derives it from the transport interface and defaultMTU');
  const runtimeConfig = asObject(member(json, 'runtimeConfig'), 'runtimeConfig') ?? {};
  refuse(runtimeConfig, ['deviceID', 'infinibandGUID'], 'pods get virtual interfaces only', 'runtimeConfig.');
  const ipamType = parseIpamType(json);
  const mac = asString(memberAnyCase(runtimeConfig, 'mac'), 'runtimeConfig.mac');
  const limits = parseLimits(json);
  const [egress, ingress] = [parseBandwidth(runtimeConfig, 'egress'), parseBandwidth(runtimeConfig, 'ingress')];
  return {
    ...(ipamType === undefined ? {} : { ipamType }),
    dns: { ...parseDns(member(json, 'dns'), 'dns'), ...parseDnsCapability(runtimeConfig) },
    portMappings: asList(memberAnyCase(runtimeConfig, 'portMappings'), 'runtimeConfig.portMappings').map(parsePortMapping),
    ips: parseIps(json, runtimeConfig),
    ...(mac === undefined || mac === '' ? {} : { mac: { text: mac, field: 'runtimeConfig.mac' } }),
    ...(egress === undefined ? {} : { egress }),
    ...(limits === undefined ? {} : { limits, ...(ingress === undefined ? {} : { ingress }) }),
  };
}

/** Value that runtimes send if no burst is set: the largest number of 31 or 32 bits. */
const anyBurst = 2_147_483_647;

/**
 * Reads the `bandwidth` capability (CNI CONVENTIONS.md), where 0 means no limit. If the burst is not set, or is the largest number, it
 * becomes the number of bits of one second: a burst of half a gigabyte is never intended.
 */
function parseBandwidth(runtimeConfig: JsonObject, direction: 'egress' | 'ingress'): Bandwidth | undefined {
  const bandwidth = asObject(memberAnyCase(runtimeConfig, 'bandwidth'), 'runtimeConfig.bandwidth') ?? {};
  const rate = bits(bandwidth, `${direction}Rate`);
  const burst = bits(bandwidth, `${direction}Burst`);
  if (rate > 0) return { rate, burst: burst === 0 || burst >= anyBurst ? rate : burst };
  if (burst === 0) return undefined;
  throw new CniError(cniCodes.invalidConfig, `runtimeConfig.bandwidth.${direction}Burst: ${burst} without an ${direction}Rate`);
}

/** @throws CniError 7 */
function parseLimits(json: JsonObject): 'both' | undefined {
  const limits = asString(member(json, 'bandwidth'), 'bandwidth') ?? 'egress';
  if (limits === 'both') return limits;
  if (limits === 'egress') return undefined;
  throw new CniError(cniCodes.invalidConfig, `bandwidth: ${show(limits)} is neither egress nor both`);
}

function bits(bandwidth: JsonObject, key: string): number {
  const path = `runtimeConfig.bandwidth.${key}`;
  const value = asInteger(memberAnyCase(bandwidth, key), path) ?? 0;
  if (value >= 0) return value;
  throw new CniError(cniCodes.invalidConfig, `${path}: ${value} is negative`);
}

/** Reads the `dns` capability, which has other names for the same fields; its values replace those of the configuration. */
function parseDnsCapability(runtimeConfig: JsonObject): CniDns {
  const dns = asObject(memberAnyCase(runtimeConfig, 'dns'), 'runtimeConfig.dns') ?? {};
  const lists = (['nameservers', 'search', 'options'] as const).map((key) => {
    const name = capabilityNames[key];
    return [key, asStrings(memberAnyCase(dns, name), `runtimeConfig.dns.${name}`)] as const;
  });
  return Object.fromEntries(lists.filter(([, list]) => list.length > 0));
}

/** Source: CNI CONVENTIONS.md, "dns". */
const capabilityNames = { nameservers: 'servers', search: 'searches', options: 'options' } as const;

function refuse(object: JsonObject, keys: readonly string[], why: string, prefix = ''): void {
  for (const key of keys) {
    const value = memberAnyCase(object, key);
    if (value !== undefined) throw new CniError(cniCodes.unsupportedField, `${prefix}${key}: ${show(value)} is not supported`, why);
  }
}

/** @throws CniError 7 unless `ipam.type` is absent, `seine`, or a file name that stays inside CNI_PATH */
export function parseIpamType(json: JsonObject): string | undefined {
  const ipam = asObject(member(json, 'ipam'), 'ipam') ?? {};
  const type = asString(member(ipam, 'type'), 'ipam.type') ?? '';
  if (type === '' || type === 'seine') return undefined;
  if (!isCniName(type) || type.length > 255)
    throw new CniError(cniCodes.invalidConfig, `ipam.type: ${show(type)} is not the name of a plugin`);
  return type;
}

/** The `ips` capability takes precedence over `args.cni.ips` (CNI CONVENTIONS.md). */
function parseIps(json: JsonObject, runtimeConfig: JsonObject): readonly RequestedIp[] {
  const capability = asked(asStrings(memberAnyCase(runtimeConfig, 'ips'), 'runtimeConfig.ips'), 'runtimeConfig.ips');
  const args = asObject(member(json, 'args'), 'args') ?? {};
  const cni = asObject(member(args, 'cni'), 'args.cni') ?? {};
  return capability.length > 0 ? capability : asked(asStrings(member(cni, 'ips'), 'args.cni.ips'), 'args.cni.ips');
}

function asked(ips: readonly string[], field: string): readonly RequestedIp[] {
  return ips.map((text, at) => ({ text: withoutLength(text), field: `${field}[${at}]` }));
}

/** Returns `10.0.0.7` for `10.0.0.7/24`: the pool determines the length. */
export function withoutLength(address: string): string {
  return address.replace(/\/\d{1,3}$/, '');
}

function parsePortMapping(entry: JsonValue, at: number): PortMapping {
  const path = `runtimeConfig.portMappings[${at}]`;
  if (!isObject(entry)) throw new CniError(cniCodes.invalidConfig, `${path}: ${show(entry)} is not an object`);
  const protocol = (asString(memberAnyCase(entry, 'protocol'), `${path}.protocol`) ?? 'tcp').toLowerCase();
  if (protocol !== 'tcp' && protocol !== 'udp' && protocol !== 'sctp')
    throw new CniError(cniCodes.invalidConfig, `${path}.protocol: ${show(protocol)} is not tcp, udp or sctp`);
  return {
    hostPort: port(entry, 'hostPort', path),
    containerPort: port(entry, 'containerPort', path),
    protocol,
    hostIp: asString(memberAnyCase(entry, 'hostIP'), `${path}.hostIP`) ?? '',
  };
}

function port(entry: JsonObject, key: string, path: string): number {
  const value = memberAnyCase(entry, key);
  if (typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= 65_535) return value;
  throw new CniError(cniCodes.invalidConfig, `${path}.${key}: ${value === undefined ? 'missing' : `${show(value)} is not a port`}`);
}
