import type { ApiObject } from '../api.ts';
import type { Random } from '../random.ts';
import { hostileNamespace } from './actors.ts';
import type { Drawing } from './drawing.ts';
import { unusedAddresses } from './places.ts';
import { awkwardNames, awkwardValues, listOf, pairOfSizes, sizeOf } from './sizes.ts';

const fields = ['rules', 'peers', 'ports', 'except', 'values', 'expressions'] as const;
const most = { rules: 10_000, peers: 25_000, ports: 25_000, except: 25_000, values: 30_000, expressions: 8_000 } as const;
const bytes = { rules: 100, peers: 40, ports: 35, except: 20, values: 12, expressions: 60 } as const;

type Counts = Readonly<Record<(typeof fields)[number], number>>;

/** Two repeated fields grow at once. */
export function drawPolicy(name: string, drawing: Drawing): ApiObject {
  const { random } = drawing;
  const [one, other] = [random.pick(fields), random.pick(fields)];
  const [ofOne, ofOther] = pairOfSizes(random, [bytes[one], bytes[other]], [most[one], most[other]]);
  // Repetition in one rule would be repeated in all.
  const others = Object.fromEntries(fields.map((field) => [field, 1 + random.below(2)])) as Record<(typeof fields)[number], number>;
  const counts: Counts = { ...others, [one]: ofOne, ...(one !== other && { [other]: one === 'rules' ? Math.min(ofOther, 30) : ofOther }) };
  const direction = random.pick(['Ingress', 'Egress', 'both'] as const);
  const policyTypes = direction === 'both' ? ['Ingress', 'Egress'] : [direction];
  return {
    metadata: { name, namespace: hostileNamespace },
    spec: {
      podSelector: random.pick<object>([{}, { matchLabels: { app: 'attacker' } }, drawSelector(random, counts)]),
      policyTypes,
      ...(policyTypes.includes('Ingress') && { ingress: drawRules('from', counts, drawing) }),
      ...(policyTypes.includes('Egress') && { egress: drawRules('to', direction === 'both' ? oneOfEach : counts, drawing) }),
    },
  };
}

/** The pods that it selects, or its rules, change. */
export function changedPolicy(drawing: Drawing): object {
  const { random } = drawing;
  const rules = { ingress: drawRules('from', { ...oneOfEach, rules: sizeOf(random, 100), peers: sizeOf(random, 500) }, drawing) };
  return { spec: random.pick<object>([{ podSelector: {} }, { podSelector: drawSelector(random, oneOfEach) }, rules]) };
}

const oneOfEach: Counts = { rules: 1, peers: 1, ports: 1, except: 1, values: 1, expressions: 1 };

function drawRules(side: 'from' | 'to', counts: Counts, drawing: Drawing): object[] {
  const { random } = drawing;
  return listOf(counts.rules, (index) => ({
    ...(random.chance(0.9) && { [side]: drawPeers(index === 0 ? counts : { ...oneOfEach, peers: 1 + (index % 2) }, index, drawing) }),
    ...(random.chance(0.6) && { ports: drawPorts(index === 0 ? counts.ports : 1, random) }),
  }));
}

function drawPeers(counts: Counts, rule: number, { random, foreign }: Drawing): object[] {
  const family = random.pick(['ipv4', 'ipv6'] as const);
  const unusedIps = unusedAddresses(counts.peers, family, rule + random.below(100));
  const bits = family === 'ipv4' ? 32 : 128;
  return listOf(counts.peers, (index) => {
    if (index > 5) return { ipBlock: { cidr: `${unusedIps[index]}/${bits}` } };
    const { address } = random.pick(foreign);
    return random.pick<object>([
      { ipBlock: { cidr: `${address}/${address.includes(':') ? 128 : 32}` } },
      { ipBlock: { cidr: family === 'ipv4' ? '0.0.0.0/0' : '::/0', except: drawExcept(counts.except, family, rule) } },
      { namespaceSelector: drawSelector(random, counts) },
      { podSelector: drawSelector(random, counts), namespaceSelector: {} },
    ]);
  });
}

function drawExcept(count: number, family: 'ipv4' | 'ipv6', from: number): string[] {
  return unusedAddresses(count, family, from).map((address) => `${address}/${family === 'ipv4' ? 32 : 128}`);
}

function drawPorts(count: number, random: Random): object[] {
  const first = 1 + random.below(Math.max(1, 60_000 - count));
  return listOf(count, (index) => {
    if (index === 0) return { protocol: random.pick(['TCP', 'UDP', 'SCTP']), port: random.pick<number | string>([1, 80, ...awkwardNames]) };
    if (random.chance(0.1)) return { protocol: 'TCP', port: first + index, endPort: 65_535 };
    return { protocol: random.pick(['TCP', 'UDP']), port: Math.min(65_535, first + index) };
  });
}

function drawSelector(random: Random, { values, expressions }: Counts): object {
  const operator = random.pick(['In', 'NotIn', 'Exists', 'DoesNotExist'] as const);
  const takesValues = operator === 'In' || operator === 'NotIn';
  return {
    matchExpressions: listOf(expressions, (index) => ({
      key: index === 0 ? random.pick(['app', ...awkwardNames]) : `${random.pick(awkwardNames)}-${index}`,
      operator,
      ...(takesValues && { values: listOf(index === 0 ? values : 1, (at) => (at === 0 ? random.pick(awkwardValues) : `v${at}`)) }),
    })),
  };
}
