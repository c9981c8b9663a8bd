import type { PolicyEngine } from '../../src/policy/policy-engine.ts';
import { describe, nameOf, type PolicyObject, type ProofResult, prove, put, remove } from './policy-proof.ts';
import { type PolicyChangeStep, type PolicyHistory, probedAddresses, probedPorts } from './random-policies.ts';

/** Lives a history: after each change the matrix is that of an engine that began with what is there now; the last one is proven. */
export function runHistory(newEngine: () => PolicyEngine, { objects, changes }: PolicyHistory): ProofResult {
  const set = new Map<string, PolicyObject>();
  const engine = newEngine();
  const take = (each: PolicyObject): void => {
    set.set(nameOf(each), each);
    put(engine, each);
  };
  for (const each of objects) take(each);
  engine.update();
  const differences: string[] = [];
  const decided = new Map<string, string>();
  for (const [at, steps] of changes.entries()) {
    for (const step of steps) apply(step);
    engine.update();
    const anew = newEngine();
    for (const each of set.values()) put(anew, each);
    anew.update();
    const [one, other] = [describe(engine.matrix), describe(anew.matrix)].map((each) => JSON.stringify(each));
    if (one !== other)
      differences.push(`after change ${at} the matrix is another than from scratch: ${firstDifference(one ?? '', other ?? '')}`);
    for (const [row, value] of rowsOf(engine)) {
      if ((decided.get(row) ?? value) !== value) differences.push(`a row has another value than before: ${row}`);
      decided.set(row, value);
    }
  }
  const last = prove(set, engine.matrix, probedAddresses, probedPorts);
  return { ...last, differences: [...differences, ...last.differences] };

  function apply(step: PolicyChangeStep): void {
    if ('put' in step) {
      take(step.put);
      return;
    }
    const names = [...set.keys()];
    const name = names[step.remove % names.length];
    const each = name === undefined ? undefined : set.get(name);
    if (name === undefined || !each) return;
    set.delete(name);
    remove(engine, each);
  }
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
