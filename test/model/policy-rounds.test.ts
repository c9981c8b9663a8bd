import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { Steps } from '../../src/base/async/steps.ts';
import { policyPods } from '../../src/kubernetes/resources/policy-pod.ts';
import { type PolicyChange, PolicyEngine } from '../../src/policy/engine/policy-engine.ts';
import { PolicyFlows } from '../../src/policy/flows/policy-flows.ts';
import { relationKey } from '../../src/policy/matrix/matrix.ts';
import { batches, timeoutOf } from '../support/batches.ts';
import { describe, nameOf, type PolicyObject, prove, provenNode, put, remove } from './policy-proof.ts';
import { type PolicyHistory, policyHistories, probedAddresses, probedPorts } from './random-policies.ts';

const seed = Number(process.env['SEINE_TEST_SEED'] ?? Date.now() % 1_000_000);
const runs = Number(process.env['SEINE_TEST_POLICY_SETS'] ?? 3);

interface Seen {
  interrupted: number;
  admitted: number;
}

/** An engine whose rounds are interrupted by changes, and by pods that start. */
class InterruptedEngine {
  readonly engine = new PolicyEngine(provenNode);
  readonly now = new Map<string, PolicyObject>();
  readonly #pieces: Iterator<number>;
  readonly #seen: Seen;
  #round: Steps<PolicyChange> | undefined;
  #roundOf: ReadonlyMap<string, PolicyObject> = new Map();
  #read = this.#text;
  /** True if a pod was admitted since the last publication. */
  #isAdmitted = false;

  /** @param pieces number of chunks of a round between one object and the next */
  constructor(pieces: Iterator<number>, seen: Seen) {
    this.#pieces = pieces;
    this.#seen = seen;
  }

  get #text(): string {
    return JSON.stringify(describe(this.engine.matrix));
  }

  put(each: PolicyObject, doesStart: boolean): void {
    this.now.set(nameOf(each), each);
    put(this.engine, each);
    if (doesStart) this.#admit(each);
    this.#work();
  }

  remove(at: number): void {
    const name = [...this.now.keys()][at % Math.max(1, this.now.size)];
    const each = name === undefined ? undefined : this.now.get(name);
    if (name === undefined || !each) return;
    this.now.delete(name);
    remove(this.engine, each);
    this.#work();
  }

  finish(): void {
    while (this.#round || this.engine.isBehind) this.#piece();
  }

  #work(): void {
    for (let left: number = this.#pieces.next().value ?? 0; left > 0; left--) this.#piece();
    // Readers see nothing of an unfinished round.
    if (this.#round && !this.#isAdmitted) expect(this.#text).toBe(this.#read);
  }

  /** Its answer is what readers find, with the row of its class. */
  #admit(each: PolicyObject): void {
    const pod = each.kind === 'Pod' ? policyPods.project(each.object) : undefined;
    const subject = pod && this.engine.admit(pod);
    if (!subject) return;
    const { matrix } = this.engine;
    expect(matrix.subjects.get(`${pod.namespace}/${pod.name}`)).toBe(subject);
    for (const direction of ['ingress', 'egress'] as const) {
      const found = subject[direction];
      if (found) expect(matrix[direction].relations.has(relationKey(found))).toBe(true);
    }
    this.#isAdmitted = true;
    this.#seen.admitted++;
  }

  #piece(): void {
    if (!this.#round) {
      this.#round = this.engine.round();
      this.#roundOf = new Map(this.now);
    }
    if (!this.#round.next().done) {
      this.#seen.interrupted++;
      return;
    }
    if (!this.#isAdmitted) expect(this.#text).toBe(this.#read);
    this.#round = undefined;
    this.engine.publish();
    const rebuilt = new PolicyEngine(provenNode);
    for (const each of this.#roundOf.values()) put(rebuilt, each);
    rebuilt.update();
    if (!this.#isAdmitted) expect(this.#text).toBe(JSON.stringify(describe(rebuilt.matrix)));
    this.#isAdmitted = this.engine.isBehind && this.#isAdmitted;
    this.#read = this.#text;
  }
}

/** @param starts true if pods start when they are added */
function live({ objects, changes }: PolicyHistory, pieces: readonly number[], starts: boolean, seen: Seen): void {
  const interrupted = new InterruptedEngine(endless(pieces), seen);
  for (const each of objects) interrupted.put(each, starts);
  for (const steps of changes)
    for (const step of steps)
      if ('put' in step) interrupted.put(step.put, starts);
      else interrupted.remove(step.remove);
  interrupted.finish();
  const { engine, now } = interrupted;
  const rebuilt = new PolicyEngine(provenNode);
  for (const each of now.values()) put(rebuilt, each);
  rebuilt.update();
  expect(describe(engine.matrix)).toEqual(describe(rebuilt.matrix));
  expect(prove(now, engine.matrix, probedAddresses, probedPorts).differences.slice(0, 3)).toEqual([]);
}

function* endless(pieces: readonly number[]): Generator<number> {
  for (;;) yield* pieces;
}

/** Mostly few, so that a round lasts for many changes; and now and then a whole one. */
const workBetween = fc.array(fc.oneof({ weight: 4, arbitrary: fc.nat(12) }, { weight: 1, arbitrary: fc.nat(400) }), {
  minLength: 1,
  maxLength: 12,
});

it.each([
  ['changes that come in its middle', false],
  ['pods that start in its middle', true],
])(`a round is complete or invisible, whatever %s (SEINE_TEST_SEED=${seed})`, { timeout: timeoutOf(runs) }, async (_, starts) => {
  const seen: Seen = { interrupted: 0, admitted: 0 };
  for await (const batch of batches('rounds', { seed, runs }))
    fc.assert(
      fc.property(policyHistories, workBetween, (history, pieces) => live(history, pieces, starts, seen)),
      { seed: batch.seed, numRuns: batch.runs, endOnFailure: true },
    );
  process.stdout.write(`${JSON.stringify(seen)}\n`);
  expect(seen.interrupted).toBeGreaterThan(runs);
  if (runs >= 100) expect(seen.admitted > 0).toBe(starts); // a few clusters may have no pod that can
});

/** Counts accesses to large maps, which do not depend on the host's speed. */
class MapWork {
  #count = 0;
  readonly #restore: (() => void)[] = [];

  constructor() {
    for (const prototype of [Map.prototype, Set.prototype])
      for (const name of ['get', 'set', 'has', 'add', 'delete'] as const) {
        const whole: unknown = Reflect.get(prototype, name);
        if (typeof whole !== 'function') continue;
        const count = (): void => void this.#count++;
        Reflect.set(prototype, name, function (this: object, ...args: readonly unknown[]): unknown {
          count();
          return Reflect.apply(whole, this, args);
        });
        this.#restore.push(() => Reflect.set(prototype, name, whole));
      }
  }

  take(): number {
    const count = this.#count;
    this.#count = 0;
    return count;
  }

  stop(): void {
    for (const restore of this.#restore) restore();
  }
}

/** Work of the largest chunk when a namespace with this number of pods is relabelled, with no earlier knowledge. */
function greatestPieces(pods: number): readonly number[] {
  const engine = new PolicyEngine('n0');
  const flows = new PolicyFlows({ families: ['ipv4'] });
  const environment = (env: string) => engine.putNamespace('many', { env });
  environment('dev');
  for (let at = 0; at < 200; at++)
    engine.putNode({ name: `n${at}`, podCidrs: [`10.${at}.0.0/16`], addresses: [`192.168.0.${at}`, `10.${at}.255.1`] });
  const app = (value: number) => [{ key: 'app', operator: 'In' as const, values: [`a${value}`] }];
  const env = (value: string) => [{ key: 'env', operator: 'In' as const, values: [value] }];
  const peers = [
    { namespaces: env('prod'), pods: [] },
    { namespaces: env('test'), pods: app(1) },
    { namespaces: [], pods: [] },
    ...Array.from({ length: 200 }, (_, at) => ({ cidr: `172.16.${at}.0/24`, except: [`172.16.${at}.7/32`] })),
  ];
  engine.putPolicy({ namespace: 'own', name: 'p', uid: 'u', generation: 1, podSelector: [], ingress: [{ peers, ports: 'any' }] });
  const put = (namespace: string, name: string, nodeName: string, podIp: string, labels: Readonly<Record<string, string>>): void =>
    engine.putPod({ namespace, name, nodeName, podIps: [podIp], labels, ports: {} });
  put('own', 'here', 'n0', '10.0.0.9', {});
  for (let at = 0; at < pods; at++)
    put('many', `p${at}`, `n${1 + (at % 199)}`, `10.${1 + (at % 199)}.${at >> 8}.${at & 255}`, { app: `a${at % 3}`, own: `${at}` });
  const greatest: number[] = [];
  const round = (): void => {
    const work = new MapWork();
    try {
      let most = 0;
      const steps = roundOf(engine, flows);
      while (!steps.next().done) most = Math.max(most, work.take());
      greatest.push(Math.max(most, work.take()));
    } finally {
      work.stop();
    }
  };
  round();
  for (const name of ['test', 'prod', 'dev']) {
    environment(name);
    round();
  }
  engine.putNode({ name: 'n200', podCidrs: ['10.200.0.0/16'], addresses: [] });
  round();
  // A label that no selector has read gives each pod its own kind.
  const own = [{ key: 'own', operator: 'Exists' as const, values: [] }];
  engine.putPolicy({
    namespace: 'own',
    name: 'q',
    uid: 'v',
    generation: 1,
    podSelector: [],
    ingress: [{ peers: [{ namespaces: [], pods: own }], ports: 'any' }],
  });
  round();
  engine.removePolicy('own/q');
  round();
  engine.removePod('own/here');
  round();
  return greatest;
}

function* roundOf(engine: PolicyEngine, flows: PolicyFlows): Steps {
  const change = yield* engine.round();
  const { subjects } = yield* flows.round(engine.coming, change);
  engine.publish();
  flows.publish(engine.matrix, subjects);
}

it('no chunk of a round grows with the amount of work', () => {
  const [few, many] = [greatestPieces(500), greatestPieces(4_000)];
  expect(many.length).toBe(8);
  for (const [at, most] of many.entries()) {
    expect(most, `round ${at}`).toBeLessThan(1_500);
    expect(most, `round ${at}, beside ${few[at]} for an eighth of it`).toBeLessThanOrEqual(2 * (few[at] ?? 0) + 20);
  }
});
