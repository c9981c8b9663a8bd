import { type EndpointSlice, serviceKeyOf } from '../kube/endpoint-slice.ts';
import type { Replica } from '../kube/replica.ts';

/** Which slices each Service has, kept up to date by calls of `note` for each slice that may have changed. */
export class SlicesOfServices {
  readonly #slices: Replica<EndpointSlice>;
  /** Names of slices by Service. */
  readonly #ofService = new Map<string, Set<string>>();
  /** Which Service a slice was counted for; its label may change. */
  readonly #serviceOf = new Map<string, string>();

  constructor(slices: Replica<EndpointSlice>) {
    this.#slices = slices;
  }

  of(service: string): readonly EndpointSlice[] {
    return [...(this.#ofService.get(service) ?? [])].flatMap((name) => this.#slices.get(name) ?? []);
  }

  /** Notes which Service a slice belongs to now, and names those that are concerned: the one it had, and the one it has. */
  note(name: string): string[] {
    const slice = this.#slices.get(name);
    const before = this.#serviceOf.get(name);
    const after = slice && serviceKeyOf(slice);
    if (before !== undefined && before !== after) {
      const left = this.#ofService.get(before);
      left?.delete(name);
      if (left?.size === 0) this.#ofService.delete(before);
      this.#serviceOf.delete(name);
    }
    if (after !== undefined) {
      this.#serviceOf.set(name, after);
      this.#ofService.set(after, (this.#ofService.get(after) ?? new Set()).add(name));
    }
    if (before === undefined || before === after) return after === undefined ? [] : [after];
    return after === undefined ? [before] : [before, after];
  }
}
