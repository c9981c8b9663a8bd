import { CniError, cniCodes } from './errors.ts';
import { asInteger, asList, asObject, asString, asStrings, isObject, type JsonObject, type JsonValue, member, show } from './json.ts';
import { type CniVersion, cniVersions, isAtLeast } from './versions.ts';

/** Result of ADD in version 1.1.0, a superset of the others. */
export interface CniResult {
  readonly interfaces: readonly CniInterface[];
  readonly ips: readonly CniIp[];
  readonly routes: readonly CniRoute[];
  readonly dns: CniDns;
}

interface CniInterface {
  readonly name: string;
  readonly mac?: string;
  readonly mtu?: number;
  /** Path of the namespace, for an interface inside a container. */
  readonly sandbox?: string;
  readonly socketPath?: string;
  readonly pciID?: string;
}

export interface CniIp {
  /** `address/length` */
  readonly address: string;
  readonly gateway?: string;
  /** Index into `interfaces`. */
  readonly interface?: number;
}

export interface CniRoute {
  readonly dst: string;
  readonly gw?: string;
  readonly mtu?: number;
  readonly advmss?: number;
  readonly priority?: number;
  readonly table?: number;
  readonly scope?: number;
}

export interface CniDns {
  readonly nameservers?: readonly string[];
  readonly domain?: string;
  readonly search?: readonly string[];
  readonly options?: readonly string[];
}

/** Formats a result exactly as `version` defines it: only fields that the version lacks are left out. */
export function formatResult(result: CniResult, version: CniVersion): string {
  return JSON.stringify(isAtLeast(version, '0.3.0') ? modernResult(result, version) : oldResult(result, version));
}

function modernResult(result: CniResult, version: CniVersion): object {
  const full = isAtLeast(version, '1.1.0');
  const withFamily = !isAtLeast(version, '1.0.0');
  return {
    cniVersion: version,
    interfaces: full ? result.interfaces : result.interfaces.map(({ name, mac, sandbox }) => ({ name, mac, sandbox })),
    ips: withFamily ? result.ips.map((ip) => ({ version: isIpv6(ip.address) ? '6' : '4', ...ip })) : result.ips,
    routes: full ? result.routes : routesBefore110(result),
    dns: result.dns,
  };
}

/** Without the table field, a route of another table would be read as one of the main table, so it is left out. */
function routesBefore110({ routes }: CniResult): readonly CniRoute[] {
  return routes.filter(({ table }) => table === undefined).map(({ dst, gw }) => (gw === undefined ? { dst } : { dst, gw }));
}

/** Layout of 0.1.0 and 0.2.0: one address for each family, with its routes. */
function oldResult(result: CniResult, version: CniVersion): object {
  const family = (wanted: 'ip4' | 'ip6') => {
    const ofFamily = (text: string) => isIpv6(text) === (wanted === 'ip6');
    const ip = result.ips.find(({ address }) => ofFamily(address));
    if (!ip) return undefined;
    const routes = routesBefore110(result).filter(({ dst }) => ofFamily(dst));
    return { ip: ip.address, gateway: ip.gateway, routes };
  };
  return { cniVersion: version, ip4: family('ip4'), ip6: family('ip6'), dns: result.dns };
}

/**
 * Parses a `prevResult` in the layout of its own `cniVersion` (or, if absent, of the configuration's, `version`).
 *
 * @throws CniError 7 that names the field
 */
export function parseResult(value: JsonValue, version: CniVersion): CniResult {
  const result = asObject(value, 'prevResult') ?? {};
  if (!isAtLeast(layoutOf(result, version), '0.3.0')) return parseOldResult(result);
  return {
    interfaces: objects(result, 'interfaces').map(([entry, path]) => ({
      name: needString(entry, 'name', path),
      ...optionalStrings(entry, ['mac', 'sandbox', 'socketPath', 'pciID'], path),
      ...optionalIntegers(entry, ['mtu'], path),
    })),
    ips: objects(result, 'ips').map(([entry, path]) => ({
      address: needString(entry, 'address', path),
      ...optionalStrings(entry, ['gateway'], path),
      ...optionalIntegers(entry, ['interface'], path),
    })),
    routes: parseRoutes(result, 'prevResult'),
    dns: parseDns(member(result, 'dns'), 'prevResult.dns'),
  };
}

function layoutOf(result: JsonObject, otherwise: CniVersion): CniVersion {
  const own = asString(member(result, 'cniVersion'), 'prevResult.cniVersion') ?? '';
  const known = cniVersions.find((version) => version === own);
  if (own !== '' && known === undefined)
    throw new CniError(
      cniCodes.invalidConfig,
      `prevResult.cniVersion: ${show(own)} is not supported`,
      `supported: ${cniVersions.join(', ')}`,
    );
  return known ?? otherwise;
}

function parseOldResult(result: JsonObject): CniResult {
  const families = ['ip4', 'ip6'].flatMap((key) => {
    const family = asObject(member(result, key), `prevResult.${key}`);
    return family ? [{ family, path: `prevResult.${key}` }] : [];
  });
  return {
    interfaces: [],
    ips: families.map(({ family, path }) => ({ address: needString(family, 'ip', path), ...optionalStrings(family, ['gateway'], path) })),
    routes: families.flatMap(({ family, path }) => parseRoutes(family, path)),
    dns: parseDns(member(result, 'dns'), 'prevResult.dns'),
  };
}

function parseRoutes(owner: JsonObject, path: string): readonly CniRoute[] {
  return objects(owner, 'routes', path).map(([entry, at]) => ({
    dst: needString(entry, 'dst', at),
    ...optionalStrings(entry, ['gw'], at),
    ...optionalIntegers(entry, ['mtu', 'advmss', 'priority', 'table', 'scope'], at),
  }));
}

/** @throws CniError 7 that names the field */
export function parseDns(value: JsonValue | undefined, path: string): CniDns {
  const dns = asObject(value, path);
  if (!dns) return {};
  const lists: { -readonly [K in 'nameservers' | 'search' | 'options']?: readonly string[] } = {};
  for (const key of ['nameservers', 'search', 'options'] as const) {
    const list = asStrings(member(dns, key), `${path}.${key}`);
    if (list.length > 0) lists[key] = list;
  }
  return { ...lists, ...optionalStrings(dns, ['domain'], path) };
}

function objects(owner: JsonObject, key: string, path = 'prevResult'): [JsonObject, string][] {
  return asList(member(owner, key), `${path}.${key}`).map((entry, at) => {
    if (isObject(entry)) return [entry, `${path}.${key}[${at}]`];
    throw new CniError(cniCodes.invalidConfig, `${path}.${key}[${at}]: ${show(entry)} is not an object`);
  });
}

function needString(object: JsonObject, key: string, path: string): string {
  const text = asString(member(object, key), `${path}.${key}`);
  if (text === undefined) throw new CniError(cniCodes.invalidConfig, `${path}.${key}: missing`);
  return text;
}

function optionalStrings<K extends string>(object: JsonObject, keys: readonly K[], path: string): { [P in K]?: string } {
  const found: { [P in K]?: string } = {};
  for (const key of keys) {
    const text = asString(member(object, key), `${path}.${key}`);
    if (text !== undefined) found[key] = text;
  }
  return found;
}

function optionalIntegers<K extends string>(object: JsonObject, keys: readonly K[], path: string): { [P in K]?: number } {
  const found: { [P in K]?: number } = {};
  for (const key of keys) {
    const integer = asInteger(member(object, key), `${path}.${key}`);
    if (integer !== undefined) found[key] = integer;
  }
  return found;
}

function isIpv6(text: string): boolean {
  return text.indexOf(':') >= 0;
}
