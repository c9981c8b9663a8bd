import type { FlowEnd } from '../../api/flow-log.ts';
import { cidrContains, type Family, type Ip, parseCidr, parseIp } from '../../base/net/ip.ts';
import { addressesOf, partyName } from '../../policy/reach/party.ts';
import type { Unit } from '../../policy/reach/units.ts';
import type { MergedFlow } from '../flows/merge-flows.ts';
import type { ConnectionEvidence } from './used-connections.ts';

/** Connections of one line of the output. */
export interface AskedUse {
  /** Names of units; `shop/*` for a namespace, `*` for all pods. */
  readonly from: readonly string[];
  /** The same, or `service shop/db`. */
  readonly to: readonly string[];
  readonly family: Family | undefined;
  readonly ranges: readonly { readonly protocol: string; readonly first: number; readonly last: number }[];
  /** `closed`: connections that were admitted; `opened`: attempts that were denied. */
  readonly change: 'closed' | 'opened';
}

/** How much connections of one line were used. */
export interface LineUse {
  /** Number in the flow log, the time of the first (RFC 3339), and the last of them. */
  readonly recorded: number;
  readonly first?: string;
  readonly last?: { readonly time: string; readonly from: string; readonly to: string };
  /** Number that is open now, as far as trackers were listed. */
  readonly open: number;
}

interface ConnectionUse {
  readonly from: string | undefined;
  readonly to: string | undefined;
  readonly service: string | undefined;
  readonly family: Family;
  readonly protocol: string;
  readonly port: number;
  readonly servicePort: number;
}

interface RecordedUse extends ConnectionUse {
  readonly flow: MergedFlow;
}

interface TrackedUse extends ConnectionUse {
  readonly connections: number;
}

/** Finds the recorded and the open connections of lines. */
export class UsedConnections {
  readonly #units: ReadonlyMap<string, string>;
  readonly #outside: readonly OutsideNetwork[];
  readonly #recorded: readonly RecordedUse[];
  readonly #open: readonly TrackedUse[];

  /** @param services names of Services by address */
  constructor({ flows, open }: ConnectionEvidence, units: readonly Unit[], services: ReadonlyMap<string, string>) {
    this.#units = new Map(units.flatMap(({ name, parties }) => parties.map((party) => [partyName(party), name] as const)));
    this.#outside = outsideNetworks(units);
    const owners = new Map(
      units.flatMap(({ name, parties }) => parties.flatMap((party) => [...addressesOf(party).values()].map((ip) => [ip, name] as const))),
    );
    const unitAt = (address: string): string | undefined => owners.get(address) ?? this.#outsideUnit(address);
    this.#recorded = flows.map((flow) => ({
      flow,
      from: this.#unitOf(flow.source),
      to: this.#unitOf(flow.destination),
      service: flow.service?.name === undefined ? undefined : `service ${flow.service.namespace}/${flow.service.name}`,
      family: flow.family,
      protocol: flow.protocol,
      port: flow.destination.port ?? 0,
      servicePort: flow.service?.port ?? 0,
    }));
    this.#open = open.map(({ source, destination, protocol, port, service, connections }) => ({
      connections,
      from: unitAt(source),
      to: unitAt(destination),
      service: service && services.has(service.address) ? `service ${services.get(service.address)}` : undefined,
      family: source.includes(':') ? 'ipv6' : 'ipv4',
      protocol,
      port,
      servicePort: service?.port ?? 0,
    }));
  }

  of(line: AskedUse): LineUse {
    const events: readonly string[] = line.change === 'closed' ? ['opened'] : ['denied', 'refused'];
    const recorded = this.#recorded.filter((each) => events.includes(each.flow.event) && isOf(each, line));
    const open = line.change === 'closed' ? this.#open.filter((each) => isOf(each, line)) : [];
    const [first, last] = [recorded[0]?.flow, recorded.at(-1)?.flow];
    return {
      // Further packets of a denial are further attempts; those of a connection opened nothing.
      recorded: recorded.reduce((sum, { flow }) => sum + 1 + (line.change === 'closed' ? 0 : (flow.repeated ?? 0)), 0),
      ...(first && { first: first.time }),
      ...(last && { last: { time: last.time, from: endText(last.source), to: endText(last.destination) } }),
      open: open.reduce((sum, { connections }) => sum + connections, 0),
    };
  }

  #unitOf({ kind, namespace, name, address }: FlowEnd): string | undefined {
    if (kind === 'pod') return this.#units.get(`${namespace}/${name}`);
    return kind === 'node' ? this.#units.get(`node ${name}`) : this.#outsideUnit(address);
  }

  #outsideUnit(address: string): string | undefined {
    const ip = parseIp(address);
    return this.#outside.find((each) => each.contains(ip))?.unit;
  }
}

interface OutsideNetwork {
  readonly unit: string;
  readonly contains: (ip: Ip) => boolean;
}

/** Units of external hosts are named by their network, or by their family; the most specific network comes first. */
function outsideNetworks(units: readonly Unit[]): readonly OutsideNetwork[] {
  const outside = units.filter(({ parties: [first] }) => first?.is === 'outside');
  const networks = outside.flatMap(({ name, parties: [first] }) => {
    const [, text = ''] = /^outside ([0-9a-f.:]+\/\d+)/.exec(name) ?? [];
    const family = first?.is === 'outside' ? parseIp(first.address).family : undefined;
    const cidr = text === '' ? undefined : parseCidr(text);
    const contains = (ip: Ip): boolean => (cidr ? cidrContains(cidr, ip) : ip.family === family);
    return [{ unit: name, contains, length: cidr?.prefixLength ?? -1 }];
  });
  return networks.toSorted((a, b) => b.length - a.length);
}

function isOf(connection: ConnectionUse, { from, to, family, ranges }: AskedUse): boolean {
  if (family !== undefined && connection.family !== family) return false;
  if (!isAmong(connection.from, from)) return false;
  const isService = connection.service !== undefined && to.includes(connection.service);
  if (!isService && !isAmong(connection.to, to)) return false;
  const port = isService ? connection.servicePort : connection.port;
  return ranges.some(({ protocol, first, last }) =>
    protocol === 'other'
      ? !['TCP', 'UDP', 'SCTP'].includes(connection.protocol)
      : protocol === connection.protocol && port >= first && port <= last,
  );
}

/** Names of clients of a Service may end with the node that they are on. */
function isAmong(unit: string | undefined, names: readonly string[]): boolean {
  if (unit === undefined) return false;
  const isPod = /^[^ ]+\//.test(unit);
  return names.some(
    (name) =>
      name === unit ||
      name.startsWith(`${unit} on `) ||
      (isPod && (name === '*' || (name.endsWith('/*') && unit.startsWith(name.slice(0, -1))))),
  );
}

function endText({ namespace, name, address }: FlowEnd): string {
  if (name === undefined) return address;
  return namespace === undefined ? name : `${namespace}/${name}`;
}
