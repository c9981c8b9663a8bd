import { probesOfDrop } from '../../dataplane/compile/compile-probes.ts';
import { nothing, type Wanted } from '../../dataplane/desired/host-entries.ts';
import { learnedCookieOf, type Owner } from '../../dataplane/pipeline/cookie.ts';
import { reg } from '../../dataplane/pipeline/fields.ts';
import type { Flow, LearnChoice, Match, Step, StepsPattern, Transport } from '../../dataplane/pipeline/flow.ts';
import { drop, goto, group, load, priority, resubmit } from '../../dataplane/pipeline/flow.ts';
import { type EntryPattern, type EntryPlace, type FlowPattern, PatternFlow } from '../../dataplane/pipeline/flow-pattern.ts';
import { idleTimeoutOf } from './learned-choice.ts';
import { bucketFor, choiceOf, groupsFor, type ServiceGroup } from './service-groups.ts';
import {
  answerFor,
  endpointKey,
  hasSourceRanges,
  isVirtual,
  reachableEndpoints,
  type ServiceAddress,
  type ServiceEndpoint,
  type ServiceIntent,
  type ServiceVerdict,
} from './service-intent.ts';
import { toRangeSet } from './source-ranges.ts';
import { isItself, translateTo } from './translation.ts';

interface ServiceCompileOptions {
  /** Owner of the flows. */
  readonly owner: Owner;
  /**
   * Returns the number of the group of that name within this intent; the same name always has the same number. Numbers are allocated on
   * first use, and released only after OVS has confirmed the deletion.
   */
  readonly groupId: (name: string) => number;
}

/**
 * Compiles the bridge entries of one port of a Service, except its endpoints' translations (`compileEndpoint`). Pure.
 *
 * A Service with no endpoint still gets a flow: the packet goes to the agent, which answers with a TCP reset or an ICMP port unreachable,
 * so that clients fail at once and do not time out.
 */
export function compileService(intent: ServiceIntent, options: ServiceCompileOptions): Wanted {
  const [whole] = compileAddresses(intent, options, intent.addresses.length);
  return whole?.wanted ?? nothing;
}

/** Bridge entries for some addresses of one port of a Service. */
interface CompiledAddresses {
  readonly wanted: Wanted;
  readonly addresses: readonly ServiceAddress[];
}

/**
 * Compiles the same one by one for every few addresses, for a caller that yields in between: a port may have ten thousand. Groups come with
 * the first addresses that use them.
 *
 * @param atOnce number of addresses in each
 */
export function* compileAddresses(intent: ServiceIntent, options: ServiceCompileOptions, atOnce: number): Generator<CompiledAddresses> {
  const shares = new Distribution(intent, options);
  const reachable = new Map(intent.translation === 'bucket' ? [] : reachableEndpoints(intent).map((each) => [endpointKey(each), each]));
  for (let at = 0; at < intent.addresses.length; at += atOnce) {
    const addresses = intent.addresses.slice(at, at + atOnce);
    const flows = addresses.flatMap((address) => [
      ...fromItself(intent, address),
      ...sourceRanges(intent, address),
      ...opened(intent, address),
      ...balance(intent, address, shares),
      ...chosenItself(intent, address, reachable.get(endpointKey(address))),
    ]);
    if (at === 0) flows.push(...learning(intent, options, shares.identity));
    yield { wanted: { ...nothing, flows, groups: shares.takeGroups() }, addresses };
  }
}

/** Maximum number of endpoints to which a node forwards fragmented datagrams that open connections; a power of two. */
const fragmentParts = 4;

/** Steps for connections to a Service, and the source ports that they apply to. */
interface BalancedSteps {
  readonly steps: readonly Step[];
  readonly sourcePorts?: ServiceGroup['sourcePorts'];
}

/** The same, for connections forwarded to a group. */
interface BalancedGroup {
  readonly group: number;
  readonly sourcePorts?: ServiceGroup['sourcePorts'];
}

/** Distribution of connections over each list of endpoints; computed once for all addresses that use the list. */
class Distribution {
  /** Number that identifies the Service to policy. */
  readonly identity: number;
  readonly #intent: ServiceIntent;
  readonly #options: ServiceCompileOptions;
  /** Groups by name. */
  readonly #byName = new Map<string, readonly ServiceGroup[]>();
  /** Number of names whose groups were taken. */
  #taken = 0;
  readonly #keys = new Map<Balance['scope'], ReadonlySet<string>>();

  constructor(intent: ServiceIntent, options: ServiceCompileOptions) {
    this.#intent = intent;
    this.#options = options;
    this.identity = options.groupId('cluster/0');
  }

  /** Returns the groups that were used for the first time since the last call. */
  takeGroups(): Wanted['groups'] {
    const taken = this.#taken;
    this.#taken = this.#byName.size;
    return [...this.#byName.values()].slice(taken).flatMap((groups) => groups.map((each) => each.group));
  }

  of(answer: ServiceVerdict, address: ServiceAddress): readonly (BalancedSteps | BalancedGroup)[] {
    if (answer.do === 'drop') return [{ steps: drop }];
    if (answer.do === 'refuse') return [{ steps: [{ do: 'toAgent', reason: 'noEndpoint' }] }];
    const [only, ...others] = answer.endpoints;
    // One endpoint needs no hash, which would cost every connection another pass through the data path.
    if (only && others.length === 0) return [{ steps: this.#straightTo(only, address) }];
    if (!this.#keysOf(answer).has(endpointKey(address)))
      return this.#groupsOf(answer).map(({ group: { id }, sourcePorts }) => ({ group: id, ...(sourcePorts && { sourcePorts }) }));
    const groups = this.#ownGroupsOf(answer, address);
    return groups.map(({ group: { id }, sourcePorts }) => ({ steps: [group(id)], ...(sourcePorts && { sourcePorts }) }));
  }

  /**
   * Steps for fragmented datagrams that open a connection, without a group. Connection tracking reassembles fragments only if they arrive
   * after the same passes through the data path, and a group adds a pass for the first one, the only one with ports.
   */
  ofFragments(answer: ServiceVerdict, address: ServiceAddress): readonly (BalancedSteps | BalancedGroup)[] {
    if (answer.do !== 'balance') return this.of(answer, address);
    const { endpoints } = answer;
    const parts = endpoints.length > 1 ? fragmentParts : 1;
    return Array.from({ length: parts }, (_, part) => part).flatMap((part): BalancedSteps[] => {
      const endpoint = endpoints[Math.floor((part * endpoints.length) / parts)];
      if (endpoint === undefined || isItself(endpoint, address)) return [];
      const steps = [...this.#marked, ...choiceOf(endpoint, 'chosen').map(load), goto('dnat')];
      // Not by bit 0: Linux connects from even ports only.
      return [{ steps, ...(parts > 1 && { sourcePorts: { value: part << 1, mask: (parts - 1) << 1 } }) }];
    });
  }

  /** Returns `endpointKey` of a list's endpoints; computed once, because there may be many addresses. */
  #keysOf({ scope, endpoints }: Balance): ReadonlySet<string> {
    const keys = this.#keys.get(scope) ?? new Set(endpoints.map(endpointKey));
    this.#keys.set(scope, keys);
    return keys;
  }

  get #marked(): readonly Step[] {
    return marked(this.#intent.translation, this.identity);
  }

  #straightTo(endpoint: ServiceEndpoint, address: ServiceAddress): readonly Step[] {
    if (isItself(endpoint, address)) return [goto('egressEntry')];
    if (this.#intent.translation === 'bucket') return [...this.#marked, translateTo(endpoint)];
    const learn = learnChoice(this.#intent, this.#options.owner);
    return [...this.#marked, ...choiceOf(endpoint, 'chosen').map(load), ...(learn ? [learn] : []), goto('dnat')];
  }

  #groupsOf({ scope, endpoints }: Balance): readonly ServiceGroup[] {
    const bucket = bucketFor(this.#intent);
    return this.#once(scope, () => groupsFor(endpoints, this.#numbers(scope), () => bucket));
  }

  /**
   * Returns groups for an address that is also an endpoint's: a connection to that endpoint stays untranslated, as if there were no
   * Service.
   */
  #ownGroupsOf({ scope, endpoints }: Balance, address: ServiceAddress): readonly ServiceGroup[] {
    const name = `${scope} at ${endpointKey(address)}`;
    const [bucket, marked] = [bucketFor(this.#intent), this.#marked];
    const others: StepsPattern = (endpoint) => [...marked, ...bucket(endpoint)];
    const stepsFor = (endpoint: ServiceEndpoint): StepsPattern => (isItself(endpoint, address) ? passes : others);
    return this.#once(name, () => groupsFor(endpoints, this.#numbers(name), stepsFor));
  }

  #numbers(name: string): (part: number) => number {
    return (part) => this.#options.groupId(`${name}/${part}`);
  }

  #once(name: string, make: () => readonly ServiceGroup[]): readonly ServiceGroup[] {
    const groups = this.#byName.get(name) ?? make();
    this.#byName.set(name, groups);
    return groups;
  }
}

/** Registers of a packet to a Service before an endpoint is chosen. */
function marked(translation: ServiceIntent['translation'], identity: number): readonly Step[] {
  // A bucket translates without reading registers, and still informs `egressEntry` that a translation was attempted.
  const tried = translation === 'bucket' ? [load(reg.serviceState('chosen'))] : [];
  return [load(reg.routed('yes')), load(reg.group(identity)), ...tried];
}

/** Lets the packet continue unchanged. */
const passes: StepsPattern = () => [resubmit('egressEntry')];

type Balance = Extract<ServiceVerdict, { do: 'balance' }>;

/** Distributes connections: the same way for all clients, or differently for external clients than for pods and the node itself. */
function balance(intent: ServiceIntent, address: ServiceAddress, shares: Distribution): Flow[] {
  const [inside, external] = [answerFor(intent, address.kind, 'pod'), answerFor(intent, address.kind, 'external')];
  const sameAnswer = inside.do === external.do && (inside.do !== 'balance' || external.do !== 'balance' || inside.scope === external.scope);
  const flows = (answer: ServiceVerdict, level: number, marks: NonNullable<Match['regs']>): Flow[] => {
    const flow = (match: Match, steps: readonly Step[]): Flow => {
      return { table: 'balance', priority: level, match: { ...match, regs: [...(match.regs ?? []), ...marks] }, steps };
    };
    const stepsOf = (each: BalancedSteps | BalancedGroup): readonly Step[] =>
      'steps' in each ? each.steps : [...marked(intent.translation, shares.identity), group(each.group)];
    const isUsual = address.kind === 'cluster' && level === priority.normal;
    return [
      ...shares.of(answer, address).map((each) => {
        if (isUsual && 'group' in each && each.sourcePorts === undefined) return leading(intent, address, [shares.identity, each.group]);
        return flow(matchOf(intent, address, each.sourcePorts), stepsOf(each));
      }),
      ...(intent.transport === 'udp' ? shares.ofFragments(answer, address) : []).map((each) =>
        flow(fragmentsOf(intent, address, each.sourcePorts), stepsOf(each)),
      ),
    ];
  };
  const choose = reg.serviceState('choose');
  const forPods = flows(inside, priority.normal, [choose]);
  const forExternal = sameAnswer ? [] : flows(external, priority.high, [choose, reg.scope('external')]);
  return [
    ...forPods,
    ...(inside.do === 'drop' ? forProbes(forPods) : []),
    ...forExternal,
    ...(external.do === 'drop' ? forProbes(forExternal) : []),
  ];
}

/** Copies for probes, which are whole packets. */
function forProbes(drops: readonly Flow[]): Flow[] {
  return drops.filter(({ match }) => match.fragment === undefined).map((flow) => probesOfDrop(flow, 'service.noEndpoint'));
}

/** Flow that nearly every Service has, and usually the only one. */
function leading({ transport, translation }: ServiceIntent, { ip, port }: ServiceAddress, numbers: EntryPlace['numbers']): Flow {
  return new PatternFlow(leads[translation][transport], { ip, port, numbers });
}

function entryPattern(transport: Transport, translation: ServiceIntent['translation']): EntryPattern {
  return ({ ip, port, numbers: [identity, id] }) => {
    const match = matchOf({ family: ip.family, transport }, { kind: 'cluster', ip, port });
    const steps = [...marked(translation, identity), group(id)];
    return { table: 'balance', priority: priority.normal, match: { ...match, regs: [reg.serviceState('choose')] }, steps };
  };
}

const entryPatterns = (translation: ServiceIntent['translation']): Readonly<Record<Transport, EntryPattern>> => ({
  tcp: entryPattern('tcp', translation),
  udp: entryPattern('udp', translation),
  sctp: entryPattern('sctp', translation),
});

const leads = { bucket: entryPatterns('bucket'), endpoint: entryPatterns('endpoint') } as const;

type OneTransport = Pick<ServiceIntent, 'family' | 'transport'>;

/** Restricts the virtual address of node ports to the node. */
function addressOf({ family, transport }: OneTransport, { ip }: ServiceAddress): Match {
  return { payload: family, protocol: transport, ipDst: ip, ...(isVirtual({ ip }) && { regs: [reg.source('gateway')] }) };
}

/** Match of a connection to this address. */
function matchOf(intent: OneTransport, address: ServiceAddress, sourcePorts?: BalancedSteps['sourcePorts']): Match {
  return { ...addressOf(intent, address), portDst: address.port, ...(sourcePorts && { portSrc: sourcePorts }) };
}

/**
 * Match of a fragmented datagram that opens a connection to this address: later fragments have no ports, but connection tracking saw the
 * whole datagram.
 */
function fragmentsOf(intent: ServiceIntent, address: ServiceAddress, sourcePorts?: BalancedSteps['sourcePorts']): Match {
  return {
    ...addressOf(intent, address),
    fragment: 'yes',
    ctState: { new: '+', trk: '+' },
    ctPortDst: address.port,
    ...(sourcePorts && { ctPortSrc: sourcePorts }),
  };
}

/**
 * Flows that check source ranges: an address of a load balancer with source ranges uses the set of its Service (`compileSourceRanges`).
 * Releases up to 0.22.0 have the ranges of each port here, and `drop` in the flow whose steps these replace: one of the two is always
 * present.
 */
function sourceRanges(intent: ServiceIntent, address: ServiceAddress): Flow[] {
  if (!hasSourceRanges(intent, address)) return [];
  const both = [matchOf(intent, address), ...(intent.transport === 'udp' ? [fragmentsOf(intent, address)] : [])];
  const steps = toRangeSet(intent.sourceRanges);
  return both.map((match) => ({ table: 'sourceRanges', priority: priority.low, match, steps }));
}

/** Flows for pods' connections to addresses outside the Service ranges, which belong to a Service all the same. */
function opened(intent: ServiceIntent, address: ServiceAddress): Flow[] {
  if (address.kind === 'cluster' || isVirtual(address)) return [];
  const steps = [load(reg.scope('pod')), goto('openings')];
  const both = [matchOf(intent, address), ...(intent.transport === 'udp' ? [fragmentsOf(intent, address)] : [])];
  return both.map((match) => ({ table: 'serviceEntry', priority: priority.high, match: { ...match, regs: [reg.source('pod')] }, steps }));
}

/**
 * Flows for packets whose source is their destination: they come from no client and are not translated. Where two Services forward to each
 * other's addresses, translating them would create an entry that Open vSwitch 3.1.0 confuses with the reverse direction, and abort. Packets
 * from cluster addresses, or from that of node ports, are dropped earlier.
 */
function fromItself(intent: ServiceIntent, address: ServiceAddress): Flow[] {
  if (address.kind === 'cluster' || isVirtual(address)) return [];
  const match: Match = { ...matchOf(intent, address, { value: address.port, mask: 0xffff }), ipSrc: address.ip };
  return [{ table: 'sourceRanges', priority: priority.highest, match, steps: [goto('egressEntry')] }];
}

/** Flows for a client whose remembered endpoint has the Service's address: no translation. */
function chosenItself(intent: ServiceIntent, address: ServiceAddress, endpoint: ServiceEndpoint | undefined): Flow[] {
  if (endpoint === undefined) return [];
  const match: Match = { ...matchOf(intent, address), regs: choiceOf(endpoint, 'chosen') };
  return [{ table: 'dnat', priority: priority.higher, match, steps: [load(reg.serviceState('choose')), goto('egressEntry')] }];
}

/** Flows used by buckets whose choice is to be learned. */
function learning(intent: ServiceIntent, { owner }: ServiceCompileOptions, identity: number): Flow[] {
  const learn = learnChoice(intent, owner);
  if (!learn) return [];
  const match: Match = { payload: intent.family, protocol: intent.transport, regs: [reg.serviceState('learn'), reg.group(identity)] };
  return [{ table: 'balance', priority: priority.normal, match, steps: [learn, load(reg.serviceState('chosen')), goto('dnat')] }];
}

function learnChoice({ family, transport, affinitySeconds }: ServiceIntent, owner: Owner): LearnChoice | undefined {
  if (affinitySeconds === undefined) return undefined;
  const idleSeconds = idleTimeoutOf({ affinitySeconds });
  return {
    do: 'learnChoice',
    family,
    transport,
    ...(idleSeconds > 0 ? { idleSeconds } : {}),
    cookie: learnedCookieOf(owner),
  };
}

/** `compileEndpoint`, as a pattern. */
export const translations: Readonly<Record<Transport, FlowPattern>> = {
  tcp: (place) => compileEndpoint('tcp', place).flows,
  udp: (place) => compileEndpoint('udp', place).flows,
  sctp: (place) => compileEndpoint('sctp', place).flows,
};

/** Compiles the translation to one endpoint. Owned by the endpoint, not by a Service: it is the same for every Service that chooses it. */
export function compileEndpoint(transport: Transport, endpoint: ServiceEndpoint): Wanted {
  const { ip } = endpoint;
  const flow: Flow = {
    table: 'dnat',
    priority: priority.normal,
    match: { payload: ip.family, protocol: transport, regs: choiceOf(endpoint, 'chosen') },
    steps: [translateTo(endpoint)],
  };
  // Later fragments of IPv6 datagrams do not show their protocol; only a first fragment of UDP sets the register.
  const reported: Flow = {
    ...flow,
    priority: priority.high,
    match: { payload: ip.family, regs: [...choiceOf(endpoint, 'chosen'), reg.fragments('endpointKnown')] },
  };
  return { ...nothing, flows: transport === 'udp' && ip.family === 'ipv6' ? [flow, reported] : [flow] };
}
