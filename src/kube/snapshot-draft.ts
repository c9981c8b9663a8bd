import { SeineError } from '../errors/seine-error.ts';
import type { Held, ReplicaStore } from './replica.ts';
import { identityIn, identityOf, type ObjectIdentity, type Resource } from './resource.ts';

/** What became of one object on its way in. */
export type ObjectRead<T> =
  | (ObjectIdentity & { readonly is: 'good'; readonly value: T })
  /** Nothing we have a use for. */
  | (ObjectIdentity & { readonly is: 'unused' })
  /** It has a name, but the rest cannot be used. */
  | (ObjectIdentity & { readonly is: 'invalid'; readonly error: SeineError });

/** @throws SeineError `INVALID_INPUT` if not even a name can be read */
export function readObject<T>(resource: Resource<T>, raw: unknown): ObjectRead<T> {
  const identity = identityOf(raw);
  try {
    const value = resource.project(raw);
    return value === undefined ? { ...identity, is: 'unused' } : { ...identity, is: 'good', value };
  } catch (thrown) {
    const error = SeineError.from(thrown, `project ${resource.kind}`);
    if (error.remedy === 'crash') throw error;
    return { ...identity, is: 'invalid', error };
  }
}

/** A snapshot while it arrives. Nobody sees it before it is whole. */
export class SnapshotDraft<T> {
  readonly objects = new Map<string, Held<T>>();
  /** Keys of objects we cannot use, and why. */
  readonly invalid = new Map<string, SeineError>();
  readonly #store: ReplicaStore<T>;
  #complete = true;

  constructor(store: ReplicaStore<T>) {
    this.#store = store;
  }

  /** False if something in it could not even be named, so that an object missing from it may yet exist. */
  get complete(): boolean {
    return this.#complete;
  }

  /** Takes over what is held of an object, if it is of the very same version. @returns whether it is */
  keep(raw: unknown): boolean {
    const identity = identityIn(raw);
    const held = identity && this.#store.held().get(identity.key);
    if (held === undefined || held.version !== identity?.version || held.version === '') return false;
    this.objects.set(identity.key, held);
    return true;
  }

  add(read: ObjectRead<T>): void {
    switch (read.is) {
      case 'good':
        this.objects.set(read.key, this.#store.reuse(read.key, read.version, read.value));
        return;
      case 'unused':
        this.objects.delete(read.key);
        return;
      case 'invalid': {
        // The object exists: its last good value serves on, rather than none.
        const last = this.#store.held().get(read.key);
        if (last) this.objects.set(read.key, last);
        this.invalid.set(read.key, read.error);
      }
    }
  }

  spoil(): void {
    this.#complete = false;
  }
}
