import { compileOpenings, openingsOwner } from '../../dataplane/compile/compile-openings.ts';
import type { PolicyMode } from '../../dataplane/compile/environment.ts';
import { nothing } from '../../dataplane/desired/host-entries.ts';
import type { Owner } from '../../dataplane/pipeline/cookie.ts';
import type { NodeState } from '../../dataplane/targets/node-state.ts';
import type { LocalSubject } from './local-subjects.ts';
import { intentOf, type SubjectStanding } from './pod-policy-state.ts';

interface ServiceOpeningsOptions {
  readonly nodeState: Pick<NodeState, 'want' | 'forget'>;
  /** Maximum rate of new connections to Services for one pod whose egress is policed (per second). */
  readonly serviceOpenings: number;
  /** Returns the current mode. */
  readonly mode: () => PolicyMode;
}

/** Meters for new connections to Services of pods whose egress is policed. */
export class ServiceOpenings {
  readonly #options: ServiceOpeningsOptions;
  readonly #limited = new Set<Owner>();

  constructor(options: ServiceOpeningsOptions) {
    this.#options = options;
  }

  /** Current rate; undefined unless policies are enforced, because modes without enforcement limit no traffic. */
  get most(): number | undefined {
    return this.#options.mode() === 'enforce' ? this.#options.serviceOpenings : undefined;
  }

  /** Limits new connections of an attachment to Services if its standing requires it, else removes the limit. */
  limit(subject: LocalSubject, standing: SubjectStanding): void {
    const wanted = compileOpenings(intentOf(subject, standing, this.most));
    if (wanted === nothing) {
      this.unlimit(subject.owner);
      return;
    }
    this.#limited.add(subject.owner);
    this.#options.nodeState.want(openingsOwner(subject.owner), wanted);
  }

  unlimit(owner: Owner): void {
    if (this.#limited.delete(owner)) this.#options.nodeState.forget(openingsOwner(owner));
  }
}
