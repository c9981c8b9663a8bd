import { UsageError } from '../support/script.ts';

/** Platform of a piece. Steps of one seed count once on each. */
export interface Ground {
  /** Version of Open vSwitch. */
  readonly ovs: string;
  /** `netdev` in userspace, `system` in the kernel. */
  readonly dataPath: string;
  /** Name of the API server. */
  readonly api: string;
  readonly podInterface: string;
  readonly kernel: string;
}

/** One run, in a fresh lab, of consecutive steps. A line of a file. */
export interface Chunk {
  readonly seed: number;
  /** Numbers of the first and the last executed step. */
  readonly from: number;
  readonly to: number;
  /** Set if steps of one kind only were requested. */
  readonly only?: string;
  /** Set if changes of the desired state were limited, so that other steps were drawn. */
  readonly changesMost?: number;
  readonly ended: 'held' | 'difference' | 'error';
  /** Number of steps of each kind that changed something. */
  readonly kinds: Readonly<Record<string, number>>;
  /** Number of steps with the agent in each state. */
  readonly agent: Readonly<Record<string, number>>;
  readonly pairs: number;
  /** Number of steps in which each alert became true, and was false again when they were judged. Absent in older pieces. */
  readonly alerts?: Readonly<Record<string, number>>;
  readonly hertz: number;
  readonly patience: number;
  readonly commit: string;
  readonly began: string;
  readonly load: number;
  readonly ground: Ground;
}

/** Counts of a piece that come from its steps. */
export type Counted = Pick<Chunk, 'from' | 'to' | 'kinds' | 'agent' | 'pairs' | 'alerts'>;

/** A counted step. */
export interface TallyStep {
  readonly number: number;
  readonly agent: string;
  /** Kinds of drawn steps that changed something. */
  readonly changed: readonly string[];
  readonly deeds: readonly string[];
  readonly alerts: readonly string[];
}

/** Required number of executions of each kind. */
export const leastOfKind = 20;

/** Undefined if no step was executed. */
export function count(steps: readonly TallyStep[]): Counted | undefined {
  const done = steps.filter(({ number }) => number >= 0);
  const [first, last] = [done[0], done.at(-1)];
  if (first === undefined || last === undefined) return undefined;
  return {
    from: first.number,
    to: last.number,
    kinds: add(done.flatMap(({ changed }) => changed.map((kind) => [kind, 1] as const))),
    agent: add(done.map(({ agent }) => [agent, 1] as const)),
    pairs: done.filter(({ deeds }) => deeds.length > 1).length,
    alerts: add(done.flatMap(({ alerts }) => alerts.map((alert) => [alert, 1] as const))),
  };
}

/** @param name of the file, for the error @throws UsageError with the malformed line */
export function readChunks(name: string, text: string): readonly Chunk[] {
  return text.split('\n').flatMap((line, index) => {
    if (line.trim() === '') return [];
    try {
      const chunk = JSON.parse(line) as Chunk;
      if (![chunk.seed, chunk.from, chunk.to].every(Number.isSafeInteger) || chunk.ground === undefined)
        throw new Error('fields are missing');
      return [chunk];
    } catch (error) {
      throw new UsageError(`${name}, line ${index + 1}: ${String(error)}`);
    }
  });
}

/**
 * Sum of pieces, in lines.
 *
 * @param kinds every kind that seeds draw: others, which must be requested, may be rare
 * @throws UsageError if the same steps are in two of them
 */
export function sum(chunks: readonly Chunk[], kinds: readonly string[]): readonly string[] {
  const twice = overlap(chunks);
  if (twice !== undefined) throw new UsageError(`the same steps are in two pieces, ${twice.map(printed).join(', and ')}: leave one out`);
  const ofKind = new Map(kinds.map((kind) => [kind, 0]));
  for (const [kind, times] of Object.entries(add(chunks.flatMap((chunk) => Object.entries(chunk.kinds))))) ofKind.set(kind, times);
  const rare = [...ofKind].filter(([kind, times]) => times < leastOfKind && kinds.includes(kind));
  const agents = add(chunks.flatMap((chunk) => Object.entries(chunk.agent)));
  const pairs = chunks.reduce((all, chunk) => all + chunk.pairs, 0);
  return [
    ...bySeed(chunks),
    `agent ${listed(Object.entries(agents))}; pairs ${pairs}`,
    `alerts ${listed(Object.entries(add(chunks.flatMap(({ alerts = {} }) => Object.entries(alerts)))))}`,
    `kinds ${listed([...ofKind])}`,
    rare.length === 0 ? `each kind ${leastOfKind} times or more` : `fewer than ${leastOfKind} times: ${listed(rare)}`,
  ];
}

/** Results on each platform by seed. */
function bySeed(chunks: readonly Chunk[]): readonly string[] {
  const groups = new Map<string, Chunk[]>();
  for (const chunk of chunks) {
    const key = `seed ${chunk.seed}${aside(chunk)}, ${groundOf(chunk)}`;
    groups.set(key, [...(groups.get(key) ?? []), chunk]);
  }
  return [...groups].toSorted().map(([key, of]) => {
    const ordered = of.toSorted((one, other) => one.from - other.from);
    const ends = ordered.filter(({ ended }) => ended !== 'held').map(({ to, ended }) => `${ended} at ${to}`);
    const commits = [...new Set(ordered.map(({ commit }) => commit))].join(', ');
    const steps = ordered.reduce((all, { from, to }) => all + to - from + 1, 0);
    return `${key}: ${steps} steps, ${ranges(ordered)}; commits ${commits}; ${ends.length === 0 ? 'all held' : ends.join(', ')}`;
  });
}

/** Consecutive ranges are merged. */
function ranges(ordered: readonly Chunk[]): string {
  const joined: { from: number; to: number }[] = [];
  for (const { from, to } of ordered) {
    const last = joined.at(-1);
    if (last !== undefined && last.to + 1 === from) last.to = to;
    else joined.push({ from, to });
  }
  return joined.map(({ from, to }) => `${from} to ${to}`).join(', ');
}

/**
 * Two pieces with the same steps on the same platform. Ranges of one seed draw the same, unless one kind only, or fewer changes, were
 * requested.
 */
function overlap(chunks: readonly Chunk[]): readonly [Chunk, Chunk] | undefined {
  for (const [index, one] of chunks.entries()) {
    const same = (other: Chunk): boolean =>
      other.seed === one.seed &&
      aside(other) === aside(one) &&
      groundOf(other) === groundOf(one) &&
      other.from <= one.to &&
      one.from <= other.to;
    const other = chunks.slice(index + 1).find(same);
    if (other !== undefined) return [one, other];
  }
  return undefined;
}

function aside({ only, changesMost }: Chunk): string {
  return `${only === undefined ? '' : `, only ${only}`}${changesMost === undefined ? '' : `, ${changesMost} changes`}`;
}

function groundOf({ ground }: Chunk): string {
  return `Open vSwitch ${ground.ovs} ${ground.dataPath}, API of ${ground.api}, pods ${ground.podInterface}, kernel ${ground.kernel}`;
}

function printed(chunk: Chunk): string {
  return `seed ${chunk.seed} ${chunk.from} to ${chunk.to}${aside(chunk)} (${chunk.began}, commit ${chunk.commit}, ${chunk.ended})`;
}

function add(counts: readonly (readonly [string, number])[]): Readonly<Record<string, number>> {
  const all = new Map<string, number>();
  for (const [name, times] of counts) all.set(name, (all.get(name) ?? 0) + times);
  return Object.fromEntries([...all].toSorted());
}

function listed(counts: readonly (readonly [string, number])[]): string {
  return counts
    .toSorted(([one], [other]) => (one < other ? -1 : 1))
    .map(([name, times]) => `${name} ${times}`)
    .join(', ');
}
