import { type Family, parseIp } from '../../base/net/ip.ts';
import { FormerParties, type ReachSides } from '../../policy/reach/difference.ts';
import { isPoliced, keyOf } from '../../policy/reach/objects.ts';
import { addressesOf, partyKey, type ReachParty } from '../../policy/reach/party.ts';
import { decidersOf } from '../../policy/reach/ranges.ts';
import type { Reach } from '../../policy/reach/reach.ts';
import type { Unit } from '../../policy/reach/units.ts';
import type { ServiceEndpoint, ServiceIntent } from '../../services/compile/service-intent.ts';
import { answerFor } from '../../services/compile/service-intent.ts';
import type { SimulatedObjects } from '../objects/cluster-objects.ts';
import { type ClientPlace, dependsOnNode, intentsAt, portName, type ServedSide, ServiceIndex } from '../services/service-answers.ts';
import { externalChanges } from './external-difference.ts';
import { type ClientAnswer, type JudgedEndpoint, type ServedChange, type ServiceCell, type SideName, sideNames } from './service-cells.ts';
import { ServiceConfirmation } from './service-confirmation.ts';

interface ServiceDifference {
  readonly changes: readonly ServedChange[];
  readonly confirmed: number;
  /** Results that the reference does not confirm, as text. */
  readonly disagreements: readonly string[];
}

interface Circumstances {
  readonly sides: ReachSides;
  readonly units: readonly Unit[];
  readonly objects: { readonly before: SimulatedObjects; readonly after: SimulatedObjects };
}

/** Compares what clients get at Services whose own objects, or whose EndpointSlices, change. */
export function serviceDifference({ sides, units, objects }: Circumstances): ServiceDifference {
  const indexes = { before: new ServiceIndex(objects.before), after: new ServiceIndex(objects.after) };
  const judges = { before: new EndpointJudge(sides.before), after: new EndpointJudge(sides.after) };
  const confirmation = new ServiceConfirmation(objects);
  const former = new FormerParties(sides);
  const places = new Map(objects.after.nodes.map(({ metadata: { name, labels } }) => [name, placeOf(name, labels)]));
  const changes: ServedChange[] = [];
  for (const key of new Set([...indexes.before.keys, ...indexes.after.keys])) {
    const both = { before: indexes.before.of(key), after: indexes.after.of(key) };
    if (JSON.stringify(relevant(both.before)) === JSON.stringify(relevant(both.after))) continue;
    const answers = new ServiceAnswers(both);
    changes.push(...externalChanges(key, both, [...places.values()], confirmation));
    for (const unit of units)
      for (const group of clientGroups(unit, answers, places)) {
        const cells = cellsOf(key, group, { answers, judges, former });
        for (const cell of cells) confirmation.confirm(key, cell);
        changes.push(...mergedFamilies(cells.map(({ row }) => row)));
      }
  }
  return { changes, confirmed: confirmation.compared, disagreements: confirmation.disagreements };
}

/** Parts of a Service that clients notice. */
function relevant(side: ServedSide | undefined): unknown {
  if (!side) return undefined;
  const { status, spec } = side.served as ServedSide['served'] & { readonly status?: unknown };
  return [spec, status, side.slices.map(({ addressType, endpoints, ports }) => [addressType, endpoints, ports])];
}

function placeOf(name: string, labels: Readonly<Record<string, string>> = {}): ClientPlace {
  const zone = Object.hasOwn(labels, 'topology.kubernetes.io/zone') ? labels['topology.kubernetes.io/zone'] : undefined;
  return { name, ...(zone === undefined ? {} : { zone }) };
}

/** Intents of one Service on both sides, by node where that makes a difference. */
class ServiceAnswers {
  readonly #sides: Readonly<Record<SideName, ServedSide | undefined>>;
  readonly #byNode: boolean;
  readonly #intents = new Map<string, Readonly<Record<SideName, readonly ServiceIntent[]>>>();

  constructor(sides: Readonly<Record<SideName, ServedSide | undefined>>) {
    this.#sides = sides;
    this.#byNode = sideNames.some((name) => sides[name] !== undefined && dependsOnNode(sides[name]));
  }

  exists(side: SideName): boolean {
    return this.#sides[side] !== undefined;
  }

  at(place: ClientPlace): Readonly<Record<SideName, readonly ServiceIntent[]>> {
    const key = this.#byNode ? place.name : '';
    const { before, after } = this.#sides;
    const known = this.#intents.get(key) ?? { before: before ? intentsAt(before, place) : [], after: after ? intentsAt(after, place) : [] };
    this.#intents.set(key, known);
    return known;
  }

  /** Equal for places whose clients get the same. */
  textAt(place: ClientPlace): string {
    const { before, after } = this.at(place);
    const textOf = ({ name, cluster, local, anyEndpoint }: ServiceIntent) => [
      name,
      endpointTexts(cluster),
      endpointTexts(local),
      anyEndpoint,
    ];
    return JSON.stringify([before.map(textOf), after.map(textOf)]);
  }
}

function endpointTexts(endpoints: readonly ServiceEndpoint[]): readonly string[] {
  return endpoints.map(({ ip, port }) => `${ip.text} ${port}`);
}

/** Clients that get the same. */
interface ClientGroup extends Unit {
  readonly place: ClientPlace;
}

const anywhere: ClientPlace = { name: '' };

function clientGroups(unit: Unit, answers: ServiceAnswers, places: ReadonlyMap<string, ClientPlace>): readonly ClientGroup[] {
  const clients = unit.parties.filter(({ is }) => is !== 'outside');
  const groups = [...Map.groupBy(clients, (party) => answers.textAt(placeOfParty(party, places))).values()];
  return groups.flatMap((parties): readonly ClientGroup[] => {
    const [first] = parties;
    if (!first) return [];
    const place = placeOfParty(first, places);
    const nodes = new Set(parties.map((party) => placeOfParty(party, places).name));
    const suffix = groups.length > 1 ? ` on ${place.name}${nodes.size > 1 ? ` and ${nodes.size - 1} more` : ''}` : '';
    return [{ name: `${unit.name}${suffix}`, parties, place }];
  });
}

function placeOfParty(party: ReachParty, places: ReadonlyMap<string, ClientPlace>): ClientPlace {
  const name = party.is === 'pod' ? party.pod.spec.nodeName : party.is === 'node' ? party.node.metadata.name : undefined;
  return (name !== undefined && places.get(name)) || (name === undefined ? anywhere : { name });
}

interface CellParts {
  readonly answers: ServiceAnswers;
  readonly judges: Readonly<Record<SideName, EndpointJudge>>;
  readonly former: FormerParties;
}

function cellsOf(key: string, { name, parties, place }: ClientGroup, { answers, judges, former }: CellParts): readonly ServiceCell[] {
  const [party] = parties;
  if (!party) return [];
  const intents = answers.at(place);
  const names = new Set(sideNames.flatMap((side) => intents[side].map((intent) => `${portName(intent)} ${intent.family}`)));
  return [...names].flatMap((text): readonly ServiceCell[] => {
    const [ports = '', family = 'ipv4'] = text.split(' ') as [string, Family];
    if (!addressesOf(party).has(family)) return [];
    const client = { before: former.of(party), after: party };
    const answered = (side: SideName): ClientAnswer => {
      const intent = intents[side].find((each) => portName(each) === ports && each.family === family);
      if (!intent) return { is: answers.exists(side) ? 'no port' : 'no Service', endpoints: [] };
      return judges[side].answer(intent, client[side], parties);
    };
    const both = { before: answered('before'), after: answered('after') };
    const change = changeOf(both);
    if (change === undefined) return [];
    const row = { from: name, to: `service ${key}`, family, ports, change, before: answerText(both.before), after: answerText(both.after) };
    return [{ row, client, family, place, answers: both }];
  });
}

/** Rows of both families become one if they are equal. */
function mergedFamilies(rows: readonly ServedChange[]): readonly ServedChange[] {
  return [...Map.groupBy(rows, ({ family: _, ...row }) => JSON.stringify(row)).values()].flatMap((same) => {
    const [first, second] = same;
    if (!first || !second) return same;
    const { family: _, ...row } = first;
    return [row];
  });
}

function changeOf({ before, after }: Readonly<Record<SideName, ClientAnswer>>): ServedChange['change'] | undefined {
  const [then, now] = [before, after].map(({ endpoints }) => {
    const allowed = endpoints.filter(({ verdict }) => verdict === 'allow').length;
    return { share: endpoints.length === 0 ? 0 : allowed / endpoints.length, text: endpointsText(endpoints) };
  });
  if (!then || !now) return undefined;
  if (now.share !== then.share) return now.share > then.share ? 'opened' : 'closed';
  return then.text === now.text || now.share === 0 ? undefined : 'other endpoints';
}

function endpointsText(endpoints: readonly JudgedEndpoint[]): string {
  return JSON.stringify(endpoints.map(({ endpoint, verdict }) => [endpoint.ip.text, endpoint.port, verdict]));
}

const withoutEndpoint = {
  'no Service': 'no such Service',
  'no port': 'the Service has no such port',
  refused: 'refused: no endpoint',
  dropped: 'dropped: no endpoint on the node of the client',
} as const;

function answerText({ is, endpoints }: ClientAnswer): string {
  if (is !== 'served') return withoutEndpoint[is];
  const denied = endpoints.filter(({ verdict }) => verdict === 'deny');
  const by = [...new Set(denied.flatMap((each) => each.by))].join(', ');
  const number = `${endpoints.length} endpoint${endpoints.length === 1 ? '' : 's'}`;
  if (denied.length === 0) return endpoints.length === 0 ? 'only the client itself' : `${number}: ${placesText(endpoints)}`;
  return denied.length === endpoints.length
    ? `policy denies ${number}: ${by}`
    : `${endpoints.length - denied.length} of ${number}; policy denies the others: ${by}`;
}

const PLACES_SHOWN = 3;

function placesText(endpoints: readonly JudgedEndpoint[]): string {
  const shown = endpoints
    .slice(0, PLACES_SHOWN)
    .map(({ endpoint: { ip, port } }) => (ip.family === 'ipv6' ? `[${ip.text}]:${port}` : `${ip.text}:${port}`));
  return endpoints.length > PLACES_SHOWN ? `${shown.join(', ')} and ${endpoints.length - PLACES_SHOWN} more` : shown.join(', ');
}

/** Verdicts of the policies of one side about endpoints. */
class EndpointJudge {
  readonly #reach: Reach;
  readonly #owners = new Map<string, ReachParty>();

  constructor(reach: Reach) {
    this.#reach = reach;
    const { nodes, pods } = reach.objects;
    for (const node of nodes) for (const text of addressesOf({ is: 'node', node }).values()) this.#owners.set(text, { is: 'node', node });
    for (const pod of pods.filter(isPoliced))
      for (const { ip } of pod.status.podIPs ?? []) this.#owners.set(parseIp(ip).text, { is: 'pod', pod });
  }

  /** @param others clients of the same unit: one of them stands for a client that is an endpoint itself */
  answer(intent: ServiceIntent, client: ReachParty, others: readonly ReachParty[]): ClientAnswer {
    const answer = answerFor(intent, 'cluster', client.is === 'node' ? 'node' : 'pod');
    if (answer.do !== 'balance') return { is: answer.do === 'refuse' ? 'refused' : 'dropped', intent, endpoints: [] };
    const endpoints = answer.endpoints.flatMap((endpoint) => this.#judged(intent, endpoint, client, others) ?? []);
    return { is: 'served', intent, endpoints };
  }

  /** @returns undefined for a client that is the only endpoint of its unit: what a pod may send to itself is not compared */
  #judged(intent: ServiceIntent, endpoint: ServiceEndpoint, client: ReachParty, others: readonly ReachParty[]): JudgedEndpoint | undefined {
    const owner = this.#owners.get(endpoint.ip.text) ?? { is: 'outside', address: endpoint.ip.text };
    const isOther = (party: ReachParty): boolean => partyKey(party) !== partyKey(owner);
    const asking = isOther(client) ? client : others.find(isOther);
    if (!asking) return undefined;
    const ranges = this.#reach.between(this.#own(asking), owner).families.get(intent.family) ?? [];
    const protocol = intent.transport.toUpperCase();
    const range = ranges.find((each) => each.protocol === protocol && each.first <= endpoint.port && each.last >= endpoint.port);
    return { endpoint, verdict: range?.verdict ?? 'allow', by: range ? decidersOf(range) : [] };
  }

  /** The party as the objects of this side have it. */
  #own(party: ReachParty): ReachParty {
    if (party.is !== 'pod') return party;
    const [address = ''] = addressesOf(party).values();
    const own = this.#owners.get(address);
    return own?.is === 'pod' && keyOf(own.pod) === keyOf(party.pod) ? own : party;
  }
}
