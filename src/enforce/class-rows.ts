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
    readonly reconcilers: { readonly bridge: Pick<NodeState['reconcilers']['bridge'], 'realized' | 'realizedRevision'> };
  };
  /** Of this node, `namespace/name`. */
  readonly pods: () => Iterable<string>;
}

/** The rows that pods are led to: wanted before any pod is, and as long as one may be. */
export class ClassRows {
  readonly #options: ClassRowsOptions;
  /** Owners of rows to be forgotten once nothing leads to them. */
  readonly #leaving = new Set<Owner>();
  /** The bridge's revision that has the rows of a class, by direction and number. */
  readonly #readyAt = new Map<string, number>();

  constructor(options: ClassRowsOptions) {
    this.#options = options;
  }

  /** Wants the rows that a round has changed; what is not needed any more stays. @returns pods whose classes may be others */
  update(): ReadonlySet<string> {
    const { engine, flows, nodeState } = this.#options;
    const { wanted, subjects } = flows.update(engine.matrix, engine.update());
    for (const [owner, rows] of wanted) {
      if (rows.length === 0) this.#leaving.add(owner);
      else {
        this.#leaving.delete(owner);
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
    const revision = Math.max(0, ...classNames(standing.classes).map((name) => this.#readyAt.get(name) ?? 0));
    if (bridge.realizedRevision < revision) await bridge.realized(revision, signal);
  }

  /** Rows of a class that nobody was in are wanted as of now; those of a class that nobody is in may go, and come again. */
  #noteClasses(): void {
    const { nodeState, pods, flows } = this.#options;
    const { revision } = nodeState.bridge;
    const used = new Set([...pods()].flatMap((key) => classNames(flows.classesOf(key))));
    for (const name of this.#readyAt.keys()) if (!used.has(name)) this.#readyAt.delete(name);
    for (const name of used) if (!this.#readyAt.has(name)) this.#readyAt.set(name, revision);
  }
}
