import type { Owner } from '../pipeline/cookie.ts';
import type { PolicyEngine } from '../policy/policy-engine.ts';
import type { PolicyFlows } from '../policy-flows/policy-flows.ts';
import type { NodeState } from '../reconcile/node-state.ts';
import { nothing } from '../wanted/wanted.ts';
import { classNames, type SubjectStanding } from './standings.ts';

interface ClassRowsOptions {
  readonly engine: Pick<PolicyEngine, 'matrix' | 'update'>;
  readonly flows: Pick<PolicyFlows, 'update' | 'classesOf' | 'written'>;
  readonly nodeState: Pick<NodeState, 'want' | 'forget' | 'bridge'> & {
    readonly reconcilers: { readonly bridge: Pick<NodeState['reconcilers']['bridge'], 'held' | 'isHeld'> };
  };
  /** Of this node, `namespace/name`. */
  readonly pods: () => Iterable<string>;
}

/** The rows that pods are led to: wanted before any pod is, and as long as one may be. */
export class ClassRows {
  readonly #options: ClassRowsOptions;
  /** Owners of rows to be forgotten once nothing leads to them. */
  readonly #leaving = new Set<Owner>();
  /** Rows that the switch may not have yet. */
  readonly #coming = new Set<Owner>();
  /** Rows that were coming when a class came, by its direction and number: they may be its own, or what its peers are known by. */
  readonly #needs = new Map<string, ReadonlySet<Owner>>();

  constructor(options: ClassRowsOptions) {
    this.#options = options;
  }

  /** Wants the rows that a round has changed; what is not needed any more stays. @returns pods whose classes may be others */
  update(): ReadonlySet<string> {
    const { engine, flows, nodeState } = this.#options;
    const { wanted, subjects } = flows.update(engine.matrix, engine.update());
    for (const [owner, rows] of wanted) {
      if (rows.length === 0) {
        this.#leaving.add(owner);
        this.#coming.delete(owner);
      } else {
        this.#leaving.delete(owner);
        this.#coming.add(owner);
        nodeState.want(owner, { ...nothing, flows: rows });
      }
    }
    if (subjects.size > 0) this.#noteClasses();
    return subjects;
  }

  /** Whether there are rows that nobody needs any more. */
  get areLeaving(): boolean {
    return this.#leaving.size > 0;
  }

  /** No pod is led to what is not needed any more: it may go. */
  forgetLeft(): void {
    const { flows, nodeState } = this.#options;
    if (!this.areLeaving) return;
    for (const owner of this.#leaving) nodeState.forget(owner);
    this.#leaving.clear();
    flows.written(nodeState.bridge.revision);
  }

  /** Resolves once the rows are on the switch that this standing leads to. @throws SeineError `CANCELLED` */
  async untilReady(standing: SubjectStanding, signal: AbortSignal): Promise<void> {
    if (standing.is !== 'policed') return;
    const { bridge } = this.#options.nodeState.reconcilers;
    for (const name of classNames(standing.classes)) {
      const needs = this.#needs.get(name) ?? nobody;
      if (needs.size === 0) continue;
      await bridge.held(needs, signal);
      if (this.#needs.get(name) === needs) this.#needs.set(name, nobody);
    }
  }

  /** Rows of a class that nobody was in are wanted as of now; those of a class that nobody is in may go, and come again. */
  #noteClasses(): void {
    const { nodeState, pods, flows } = this.#options;
    const { bridge } = nodeState.reconcilers;
    for (const owner of this.#coming) if (bridge.isHeld(owner)) this.#coming.delete(owner);
    const coming = new Set(this.#coming);
    const used = new Set([...pods()].flatMap((key) => classNames(flows.classesOf(key))));
    for (const name of this.#needs.keys()) if (!used.has(name)) this.#needs.delete(name);
    for (const name of used) if (!this.#needs.has(name)) this.#needs.set(name, coming);
  }
}

const nobody: ReadonlySet<Owner> = new Set();
