import { compileOpenings, openingsOwner } from '../../dataplane/compile/compile-openings.ts';
import type { PolicyMode } from '../../dataplane/compile/environment.ts';
import { nothing } from '../../dataplane/desired/host-entries.ts';
import type { Owner } from '../../dataplane/pipeline/cookie.ts';
import type { NodeState } from '../../dataplane/targets/node-state.ts';
import type { LocalSubject } from './local-subjects.ts';
import { intentOf, type SubjectStanding } from './pod-policy-state.ts';

interface ServiceOpeningsOptions {
  readonly nodeState: Pick<NodeState, 'want' | 'forget'>;
  /** New connections a second that one pod whose egress is policed may open to Services. */
  readonly serviceOpenings: number;
  /** As of now. */
  readonly mode: () => PolicyMode;
}

/** The meters that openings to Services pass, of pods whose egress is policed. */
export class ServiceOpenings {
  readonly #options: ServiceOpeningsOptions;
  readonly #limited = new Set<Owner>();

  constructor(options: ServiceOpeningsOptions) {
    this.#options = options;
  }

  /** Undefined: nothing that is not enforced limits anybody. */
  get most(): number | undefined {
    return this.#options.mode() === 'enforce' ? this.#options.serviceOpenings : undefined;
  }

  /** Limits what it opens to Services, if what holds for it asks for that. */
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
