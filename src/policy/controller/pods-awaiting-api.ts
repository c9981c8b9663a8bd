import type { PolicyEngine } from '../engine/policy-engine.ts';

/** Pods of this node that the API server has not reported yet. Their standing depends on whether their namespace has policies. */
export class PodsAwaitingApi {
  readonly #engine: Pick<PolicyEngine, 'matrix' | 'hasPolicies'>;
  /** Namespaces at the last check, and whether they had policies. */
  #policed: ReadonlyMap<string, boolean> = new Map();

  constructor(engine: Pick<PolicyEngine, 'matrix' | 'hasPolicies'>) {
    this.#engine = engine;
  }

  /**
   * Checks the namespaces.
   *
   * @param pods all pods of this node, `namespace/name`
   * @returns pods whose namespace got its first policy or lost its last one since the last call, or was not checked then
   */
  look(pods: Iterable<string>): readonly string[] {
    const policed = new Map<string, boolean>();
    const found: string[] = [];
    for (const key of pods) {
      if (this.#engine.matrix.subjects.has(key)) continue;
      const namespace = key.slice(0, key.indexOf('/'));
      const is = policed.get(namespace) ?? this.#engine.hasPolicies(namespace);
      policed.set(namespace, is);
      if (is !== this.#policed.get(namespace)) found.push(key);
    }
    this.#policed = policed;
    return found;
  }
}
