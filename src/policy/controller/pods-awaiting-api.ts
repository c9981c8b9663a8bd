import type { PolicyEngine } from '../engine/policy-engine.ts';

/** Pods of this node of which the API server says nothing yet: what holds for one follows from whether its namespace has policies. */
export class PodsAwaitingApi {
  readonly #engine: Pick<PolicyEngine, 'matrix' | 'hasPolicies'>;
  /** Whether their namespaces had policies at the last look. */
  #policed: ReadonlyMap<string, boolean> = new Map();

  constructor(engine: Pick<PolicyEngine, 'matrix' | 'hasPolicies'>) {
    this.#engine = engine;
  }

  /**
   * @param pods all of this node, `namespace/name`
   * @returns those whose namespace got its first policy, or lost its last, since this was asked before; and those of namespaces that were not asked about then
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
