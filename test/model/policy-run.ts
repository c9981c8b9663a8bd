import type { PolicyEngine } from '../../src/policy/engine/policy-engine.ts';
import { describe, nameOf, type PolicyObject, type ProofResult, prove, put, remove } from './policy-proof.ts';
import { type PolicyHistory, probedAddresses, probedPorts } from './random-policies.ts';

/**
 * Executes a history: adds the initial objects, then makes each change.
 *
 * @returns the objects after the beginning and after each change
 */
export function* statesOf({ objects, changes }: PolicyHistory, engine: PolicyEngine): Generator<ReadonlyMap<string, PolicyObject>> {
  const set = new Map<string, PolicyObject>();
  const take = (each: PolicyObject): void => {
    set.set(nameOf(each), each);
    put(engine, each);
  };
  const leave = (at: number): void => {
    const name = [...set.keys()][at % Math.max(1, set.size)];
    const each = name === undefined ? undefined : set.get(name);
    if (name === undefined || !each) return;
    set.delete(name);
    remove(engine, each);
  };
  for (const each of objects) take(each);
  yield set;
  for (const steps of changes) {
    for (const step of steps)
      if ('put' in step) take(step.put);
      else leave(step.remove);
    yield set;
  }
}

/**
 * Executes a history: after each change the matrix equals that of an engine that began with the present objects; the last one is proven.
 */
export function runHistory(newEngine: () => PolicyEngine, history: PolicyHistory): ProofResult {
  const engine = newEngine();
  const differences: string[] = [];
  const decided = new Map<string, string>();
  let set: ReadonlyMap<string, PolicyObject> = new Map();
  let at = 0;
  for (set of statesOf(history, engine)) {
    engine.update();
    const rebuilt = newEngine();
    for (const each of set.values()) put(rebuilt, each);
    rebuilt.update();
    const [one, other] = [describe(engine.matrix), describe(rebuilt.matrix)].map((each) => JSON.stringify(each));
    if (one !== other)
      differences.push(`after change ${at} the matrix is another than from scratch: ${firstDifference(one ?? '', other ?? '')}`);
    for (const [row, value] of rowsOf(engine)) {
      if ((decided.get(row) ?? value) !== value) differences.push(`a row has another value than before: ${row}`);
      decided.set(row, value);
    }
    at++;
  }
  const last = prove(set, engine.matrix, probedAddresses, probedPorts);
  return { ...last, differences: [...differences, ...last.differences] };
}

function rowsOf({ matrix }: PolicyEngine): readonly (readonly [string, string])[] {
  return [matrix.ingress, matrix.egress].flatMap(({ relations }, at) =>
    [...relations].map(([key, decision]) => [`${at} ${key}`, JSON.stringify(decision)] as const),
  );
}

function firstDifference(one: string, other: string): string {
  const at = [...one].findIndex((letter, index) => letter !== other[index]);
  return `…${one.slice(Math.max(0, at - 100), at + 100)}… and …${other.slice(Math.max(0, at - 100), at + 100)}…`;
}
