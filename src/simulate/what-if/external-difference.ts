import {
  answerFor,
  type ServiceAddress,
  type ServiceIntent,
  type ServiceVerdict,
  shownAddresses,
} from '../../services/compile/service-intent.ts';
import { type ClientPlace, dependsOnNode, intentsAt, portName, type ServedSide } from '../services/service-answers.ts';
import { type ServedChange, type SideName, sideNames } from './service-cells.ts';
import type { ServiceConfirmation } from './service-confirmation.ts';

type Sides<T> = Readonly<Record<SideName, T>>;

const kindNames = { cluster: '', nodePort: 'node port', external: 'external address', loadBalancer: "load balancer's address" } as const;

/** Answer to external clients at an address. */
interface ExternalAnswer {
  readonly intent: ServiceIntent;
  readonly verdict: ServiceVerdict;
  readonly text: string;
}

/**
 * Compares the addresses of a Service on both sides, and the endpoints that external clients get there. Policies of the endpoints are not
 * part of it.
 *
 * @param places nodes; external clients may enter at each of them
 */
export function externalChanges(
  key: string,
  sides: Sides<ServedSide | undefined>,
  places: readonly ClientPlace[],
  confirmation: ServiceConfirmation,
): readonly ServedChange[] {
  const byNode = sideNames.some((side) => sides[side] !== undefined && dependsOnNode(sides[side]));
  const asked: readonly ClientPlace[] = byNode && places.length > 0 ? places : [places[0] ?? { name: '' }];
  const rows = asked.flatMap((place) => {
    const answers = { before: answersAt(sides.before, place), after: answersAt(sides.after, place) };
    const all = new Set([...answers.before.keys(), ...answers.after.keys()]);
    return [...all].flatMap((name) => {
      const both = { before: answers.before.get(name), after: answers.after.get(name) };
      const row = rowOf(key, name, both);
      if (!row) return [];
      for (const side of sideNames) {
        const answer = both[side];
        if (answer) confirmation.confirmExternal(key, side, place.name, answer.intent, answer.verdict);
      }
      return [{ row, place }];
    });
  });
  return [...addressChanges(key, sides, asked[0] ?? { name: '' }), ...rowsByNode(rows, asked.length)];
}

function answersAt(side: ServedSide | undefined, place: ClientPlace): ReadonlyMap<string, ExternalAnswer> {
  const intents = side ? intentsAt(side, place) : [];
  return new Map(
    intents.flatMap((intent) =>
      shownAddresses(intent)
        .filter(({ kind }) => kind !== 'cluster')
        .map((address) => {
          const verdict = answerFor(intent, address.kind, 'external');
          const name = `${portName(intent)} ${intent.family} ${kindNames[address.kind]}${addressText(address)}`;
          return [name, { intent, verdict, text: verdictText(verdict, intent, address) }] as const;
        }),
    ),
  );
}

function addressText({ kind, ip, port }: ServiceAddress): string {
  return kind === 'nodePort' ? ` ${port}` : ` ${ip.text}`;
}

function verdictText(verdict: ServiceVerdict, { sourceRanges }: ServiceIntent, { kind }: ServiceAddress): string {
  if (verdict.do === 'refuse') return 'refused: no endpoint';
  if (verdict.do === 'drop') return 'dropped: no endpoint on the node';
  const sources = kind === 'loadBalancer' && sourceRanges.length > 0 ? `, sources ${sourceRanges.map(({ text }) => text).join(', ')}` : '';
  const [first, second, ...rest] = verdict.endpoints.map(({ ip, port }) => `${ip.text} port ${port}`);
  return `${[first, second].filter((each) => each !== undefined).join(', ')}${rest.length > 0 ? ` and ${rest.length} more` : ''}${sources}`;
}

function rowOf(key: string, name: string, { before, after }: Sides<ExternalAnswer | undefined>): ServedChange | undefined {
  const [then, now] = [before, after].map((answer) => (answer ? JSON.stringify([answer.text, answer.verdict], bigints) : ''));
  if (then === now || !(isServed(before) || isServed(after))) return undefined;
  const [ports = '', family, ...where] = name.split(' ');
  const change = isServed(before) === isServed(after) ? 'other endpoints' : isServed(after) ? 'opened' : 'closed';
  return {
    from: `external clients at ${where.join(' ')}`,
    to: `service ${key}`,
    family: family === 'ipv6' ? 'ipv6' : 'ipv4',
    ports,
    change,
    before: before?.text ?? 'no such address',
    after: after?.text ?? 'no such address',
  };
}

function isServed(answer: ExternalAnswer | undefined): boolean {
  return answer?.verdict.do === 'balance';
}

function rowsByNode(rows: readonly { readonly row: ServedChange; readonly place: ClientPlace }[], nodes: number): readonly ServedChange[] {
  return [...Map.groupBy(rows, ({ row }) => JSON.stringify(row)).values()].flatMap((same) => {
    const [first] = same;
    if (!first) return [];
    const others = same.length > 1 ? ` and ${same.length - 1} more` : '';
    return [same.length === nodes ? first.row : { ...first.row, from: `${first.row.from} on ${first.place.name}${others}` }];
  });
}

/** Cluster addresses that come and go. Clients that use the name of the Service get the new one. */
function addressChanges(key: string, { before, after }: Sides<ServedSide | undefined>, place: ClientPlace): readonly ServedChange[] {
  if (!before || !after) return [];
  const [then, now] = [before, after].map((side) => new Set(intentsAt(side, place).flatMap(clusterAddresses)));
  const row = (address: string, change: 'opened' | 'closed'): ServedChange => ({
    from: `clients of the address ${address}`,
    to: `service ${key}`,
    ports: 'all ports',
    change,
    before: change === 'closed' ? 'served' : 'no such address',
    after: change === 'closed' ? 'no such address' : 'served',
  });
  return [
    ...[...(then ?? [])].filter((address) => !now?.has(address)).map((address) => row(address, 'closed')),
    ...[...(now ?? [])].filter((address) => !then?.has(address)).map((address) => row(address, 'opened')),
  ];
}

function clusterAddresses({ addresses }: ServiceIntent): readonly string[] {
  return addresses.flatMap(({ kind, ip }) => (kind === 'cluster' ? [ip.text] : []));
}

function bigints(_key: string, value: unknown): unknown {
  return typeof value === 'bigint' ? value.toString() : value;
}
