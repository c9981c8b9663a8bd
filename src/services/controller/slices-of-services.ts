import type { Replica } from '../../kubernetes/client/replica/replica.ts';
import { type EndpointSlice, serviceKeyOf } from '../../kubernetes/resources/endpoint-slice.ts';

/** Slices of each Service, kept up to date by a call of `note` for each slice that may have changed. */
export class SlicesOfServices {
  readonly #slices: Replica<EndpointSlice>;
  /** Names of slices by Service; most have one. */
  readonly #ofService = new Map<string, string | Set<string>>();
  /** Service for which a slice was counted; its label may change. */
  readonly #serviceOf = new Map<string, string>();

  constructor(slices: Replica<EndpointSlice>) {
    this.#slices = slices;
  }

  of(service: string): readonly EndpointSlice[] {
    const names = this.#ofService.get(service);
    if (names === undefined) return [];
    return (typeof names === 'string' ? [names] : [...names]).flatMap((name) => this.#slices.get(name) ?? []);
  }

  /** Records the Service of a slice, and returns those that are concerned: the previous one, and the current one. */
  note(name: string): string[] {
    const slice = this.#slices.get(name);
    const before = this.#serviceOf.get(name);
    const after = slice && serviceKeyOf(slice);
    if (before !== undefined && before !== after) {
      this.#leave(before, name);
      this.#serviceOf.delete(name);
    }
    if (after !== undefined) {
      this.#serviceOf.set(name, after);
      this.#join(after, name);
    }
    if (before === undefined || before === after) return after === undefined ? [] : [after];
    return after === undefined ? [before] : [before, after];
  }

  #join(service: string, name: string): void {
    const names = this.#ofService.get(service);
    if (names === undefined) this.#ofService.set(service, name);
    else if (typeof names !== 'string') names.add(name);
    else if (names !== name) this.#ofService.set(service, new Set([names, name]));
  }

  #leave(service: string, name: string): void {
    const names = this.#ofService.get(service);
    if (typeof names === 'string' ? names === name : names?.delete(name) && names.size === 0) this.#ofService.delete(service);
  }
}
