import { addressBits, cidrContains, cidrOf, type Ip } from '../net/ip.ts';
import { learnedCookieOf, type Owner } from '../pipeline/cookie.ts';
import { ctMark, reg, sourceToCtMark } from '../pipeline/fields.ts';
import type { Flow, LearnChoice, Match, Step, Transport } from '../pipeline/flow.ts';
import { drop, goto, group, load, priority, resubmit } from '../pipeline/flow.ts';
import type { FlowPattern } from '../pipeline/flow-pattern.ts';
import { zones } from '../pipeline/well-known.ts';
import { nothing, type Wanted } from '../wanted/wanted.ts';
import type { ProxyNode } from './proxy-config.ts';
import { choiceOf, groupsFor, type ServiceGroup } from './service-groups.ts';
import { type Answer, answerFor, type Endpoint, type ServiceAddress, type ServiceIntent } from './service-intent.ts';

export interface CompileOptions {
  /** Who asks for it. */
  readonly owner: Owner;
  readonly node: Pick<ProxyNode, 'addresses' | 'gateway'>;
  /**
   * The number of the group of that name within this intent; the same name is always given the same number. Numbers are given out when
   * first asked for, and free again only once the switch confirmed the delete.
   */
  readonly groupId: (name: string) => number;
}

/** Timeouts of flows are 16-bit numbers (OpenFlow 1.5.1 `ofp_flow_mod`); longer ones are the agent's to keep. */
export const longestSwitchTimeout = 65_535;

/**
 * What the bridge must hold for one port of a Service, its endpoints' translations excepted (`compileEndpoint`). Pure.
 *
 * A Service with no endpoint still gets a flow: the packet goes to the agent, which answers with a TCP reset or an ICMP port
 * unreachable, so that clients fail at once and do not time out.
 */
export function compileService(intent: ServiceIntent, options: CompileOptions): Wanted {
  const shares = new Shares(intent, options);
  const flows = intent.addresses.flatMap((address) => [
    ...sourceRanges(intent, address, options.node),
    ...balance(intent, address, shares),
  ]);
  return { ...nothing, flows: [...flows, ...learning(intent, options, shares.identity)], groups: shares.groups };
}

/** To how many endpoints a node leads datagrams in pieces that open connections; a power of two. */
const pieceParts = 4;

/** What becomes of a connection that is for a Service, with the source ports it holds for. */
interface Share {
  readonly steps: readonly Step[];
  readonly sourcePorts?: ServiceGroup['sourcePorts'];
}

/** How each list of endpoints is shared out; worked out once, whichever addresses lead there. */
class Shares {
  /** Tells which Service this is; policy will ask. */
  readonly identity: number;
  readonly #intent: ServiceIntent;
  readonly #options: CompileOptions;
  readonly #byScope = new Map<string, readonly ServiceGroup[]>();

  constructor(intent: ServiceIntent, options: CompileOptions) {
    this.#intent = intent;
    this.#options = options;
    this.identity = options.groupId('cluster/0');
  }

  get groups(): Wanted['groups'] {
    return [...this.#byScope.values()].flatMap((groups) => groups.map((each) => each.group));
  }

  of(answer: Answer): readonly Share[] {
    if (answer.do === 'drop') return [{ steps: drop }];
    if (answer.do === 'refuse') return [{ steps: [{ do: 'toAgent', reason: 'noEndpoint' }] }];
    const [only, ...others] = answer.endpoints;
    // One endpoint needs no hash, which would cost every connection another pass through the data path.
    if (only && others.length === 0) return [{ steps: [...this.#routed, ...this.#straightTo(only)] }];
    return this.#groupsOf(answer).map(({ group: { id }, sourcePorts }) => ({
      steps: [...this.#routed, group(id)],
      ...(sourcePorts && { sourcePorts }),
    }));
  }

  /**
   * For datagrams in pieces that open a connection: without a group. The tracker puts pieces together only if they came to it by the
   * same passes through the data path, and a group takes the first piece, which alone shows ports, through one more.
   */
  ofPieces(answer: Answer): readonly Share[] {
    if (answer.do !== 'balance') return this.of(answer);
    const { endpoints } = answer;
    const parts = endpoints.length > 1 ? pieceParts : 1;
    return Array.from({ length: parts }, (_, part) => part).flatMap((part): Share[] => {
      const endpoint = endpoints[Math.floor((part * endpoints.length) / parts)];
      if (endpoint === undefined) return [];
      const steps = [...this.#routed, ...choiceOf(endpoint, 'chosen').map(load), goto('dnat')];
      // Not by bit 0: Linux connects from even ports only.
      return [{ steps, ...(parts > 1 && { sourcePorts: { value: part << 1, mask: (parts - 1) << 1 } }) }];
    });
  }

  get #routed(): readonly Step[] {
    return [load(reg.rewriteMac('yes')), load(reg.group(this.identity))];
  }

  #straightTo(endpoint: Endpoint): readonly Step[] {
    const learn = learnChoice(this.#intent, this.#options.owner);
    return [...choiceOf(endpoint, 'chosen').map(load), ...(learn ? [learn] : []), goto('dnat')];
  }

  #groupsOf({ scope, endpoints }: Extract<Answer, { do: 'balance' }>): readonly ServiceGroup[] {
    const known = this.#byScope.get(scope);
    if (known) return known;
    const groups = groupsFor(this.#intent, endpoints, (part) => this.#options.groupId(`${scope}/${part}`));
    this.#byScope.set(scope, groups);
    return groups;
  }
}

/** Everybody is answered alike, or the world differently from pods and the node itself. */
function balance(intent: ServiceIntent, address: ServiceAddress, shares: Shares): Flow[] {
  const [inside, world] = [answerFor(intent, address.kind, 'pod'), answerFor(intent, address.kind, 'world')];
  const alike = inside.do === world.do && (inside.do !== 'balance' || world.do !== 'balance' || inside.scope === world.scope);
  const flows = (answer: Answer, level: number, marks: NonNullable<Match['regs']>): Flow[] => {
    const flow = (match: Match, steps: readonly Step[]): Flow => {
      return { table: 'balance', priority: level, match: { ...match, regs: [...(match.regs ?? []), ...marks] }, steps };
    };
    return [
      ...shares.of(answer).map(({ steps, sourcePorts }) => flow(matchOf(intent, address, sourcePorts), steps)),
      ...(intent.transport === 'udp' ? shares.ofPieces(answer) : []).map(({ steps, sourcePorts }) =>
        flow(piecesOf(intent, address, sourcePorts), steps),
      ),
    ];
  };
  const choose = reg.serviceState('choose');
  return [...flows(inside, priority.normal, [choose]), ...(alike ? [] : flows(world, priority.high, [choose, reg.scope('world')]))];
}

/** The virtual address of node ports is only the node's to use. */
function addressOf({ family, transport }: ServiceIntent, { kind, ip }: ServiceAddress): Match {
  return { payload: family, protocol: transport, ipDst: ip, ...(kind === 'nodePort' && { regs: [reg.source('gateway')] }) };
}

/** A connection to this address. */
function matchOf(intent: ServiceIntent, address: ServiceAddress, sourcePorts?: Share['sourcePorts']): Match {
  return { ...addressOf(intent, address), portDst: address.port, ...(sourcePorts && { portSrc: sourcePorts }) };
}

/** A datagram in pieces that opens a connection to this address: they have no ports, but the tracker, which saw it whole, has. */
function piecesOf(intent: ServiceIntent, address: ServiceAddress, sourcePorts?: Share['sourcePorts']): Match {
  return {
    ...addressOf(intent, address),
    fragment: 'yes',
    ctState: { new: '+', trk: '+' },
    ctPortDst: address.port,
    ...(sourcePorts && { ctPortSrc: sourcePorts }),
  };
}

/** Who may use a load balancer's address. The node itself may if one of its addresses may: its packets have the gateway's here. */
function sourceRanges(intent: ServiceIntent, address: ServiceAddress, { addresses, gateway }: CompileOptions['node']): Flow[] {
  if (address.kind !== 'loadBalancer' || intent.sourceRanges.length === 0) return [];
  const nodeMay = intent.sourceRanges.some((range) => addresses.some((own) => cidrContains(range, own)));
  const own = nodeMay ? gateway.filter(({ family }) => family === intent.family).map(whole) : [];
  const allowed = new Map([...intent.sourceRanges, ...own].map((range) => [range.text, range]));
  const flow = (level: number, match: Match, steps: readonly Step[]): Flow => ({ table: 'sourceRanges', priority: level, match, steps });
  const both = [matchOf(intent, address), ...(intent.transport === 'udp' ? [piecesOf(intent, address)] : [])];
  return both.flatMap((match) => [
    ...[...allowed.values()].map((range) =>
      // A mask of nothing is no match at all to a switch, and would not be read back as it was written.
      flow(priority.normal, range.prefixLength === 0 ? match : { ...match, ipSrc: range }, [resubmit('affinity'), resubmit('balance')]),
    ),
    flow(priority.low, match, drop),
  ]);
}

function whole(ip: Ip) {
  return cidrOf(ip, addressBits(ip.family));
}

/** Where buckets lead that want their choice remembered. */
function learning(intent: ServiceIntent, { owner }: CompileOptions, identity: number): Flow[] {
  const learn = learnChoice(intent, owner);
  if (!learn) return [];
  const match: Match = { payload: intent.family, protocol: intent.transport, regs: [reg.serviceState('learn'), reg.group(identity)] };
  return [{ table: 'balance', priority: priority.normal, match, steps: [learn, load(reg.serviceState('chosen')), goto('dnat')] }];
}

function learnChoice({ family, transport, affinitySeconds }: ServiceIntent, owner: Owner): LearnChoice | undefined {
  if (affinitySeconds === undefined) return undefined;
  return {
    do: 'learnChoice',
    family,
    transport,
    ...(affinitySeconds <= longestSwitchTimeout ? { idleSeconds: affinitySeconds } : {}),
    cookie: learnedCookieOf(owner),
  };
}

/** `compileEndpoint`, as a pattern. */
export const translations: Readonly<Record<Transport, FlowPattern>> = {
  tcp: (place) => compileEndpoint('tcp', place).flows,
  udp: (place) => compileEndpoint('udp', place).flows,
  sctp: (place) => compileEndpoint('sctp', place).flows,
};

/** Translation to one endpoint. Owned by the endpoint, not by a Service: it is the same whoever chose it. */
export function compileEndpoint(transport: Transport, endpoint: Endpoint): Wanted {
  const { ip, port } = endpoint;
  const flow: Flow = {
    table: 'dnat',
    priority: priority.normal,
    match: { payload: ip.family, protocol: transport, regs: choiceOf(endpoint, 'chosen') },
    steps: [
      {
        do: 'ct',
        zone: zones[ip.family].main,
        commit: true,
        next: 'destinationIdentity',
        nat: { kind: 'dst', ip, port },
        exec: [
          { do: 'mark', mark: ctMark.service('yes') },
          { do: 'moveToMark', ...sourceToCtMark },
        ],
      },
    ],
  };
  // Later pieces of IPv6 datagrams do not show that they are UDP's; who told them knew.
  const told: Flow = {
    ...flow,
    priority: priority.high,
    match: { payload: ip.family, regs: [...choiceOf(endpoint, 'chosen'), reg.pieces('told')] },
  };
  return { ...nothing, flows: transport === 'udp' && ip.family === 'ipv6' ? [flow, told] : [flow] };
}
