import { SeineError } from '../../../base/errors/seine-error.ts';
import { compareVersions } from '../reflector/reflector-machine.ts';
import { identityOf, type ObjectIdentity, type Resource } from '../resource.ts';
import type { Held, ReplicaStore } from './replica.ts';

/** Result of reading one object of a snapshot. */
export type ObjectRead<T> =
  | (ObjectIdentity & { readonly is: 'good'; readonly value: T })
  /** Object that the agent does not use. */
  | (ObjectIdentity & { readonly is: 'unused' })
  /** Object with a name whose rest cannot be used. */
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

/** Snapshot while it arrives. No reader sees it before it is complete. */
export class SnapshotDraft<T> {
  readonly objects = new Map<string, Held<T>>();
  /**
   * Objects that the server reported as deleted, or that the agent does not use, with the version of that: live events come among the
   * initial ones.
   */
  readonly gone = new Map<string, string>();
  /** Keys of objects that cannot be used, and the reasons. */
  readonly invalid = new Map<string, SeineError>();
  readonly #store: ReplicaStore<T>;
  #complete = true;

  constructor(store: ReplicaStore<T>) {
    this.#store = store;
  }

  /** False if something in it had no readable name, so that an object missing from it may yet exist. */
  get complete(): boolean {
    return this.#complete;
  }

  /** Reports whether it has information about an object, even that it was deleted. */
  has(key: string): boolean {
    return this.objects.has(key) || this.gone.has(key);
  }

  /** Keeps the present value of an object if it has exactly this version. @returns whether it has */
  keep(identity: ObjectIdentity | undefined): boolean {
    const held = identity && this.#store.held().get(identity.key);
    if (held === undefined || held.version !== identity?.version || held.version === '') return false;
    if (!this.#isOld(identity)) this.#hold(identity.key, held);
    return true;
  }

  add(read: ObjectRead<T>): void {
    if (this.#isOld(read)) return;
    switch (read.is) {
      case 'good':
        this.#hold(read.key, this.#store.reuse(read.key, read.version, read.value));
        return;
      case 'unused':
        this.#drop(read);
        return;
      case 'invalid': {
        // The object exists: its last good value is better than none.
        const last = this.objects.get(read.key) ?? this.#store.held().get(read.key);
        if (last) this.#hold(read.key, last);
        this.invalid.set(read.key, read.error);
      }
    }
  }

  /** Removes a deleted object; servers send the version of the deletion, or the object's last. */
  remove(identity: ObjectIdentity): void {
    const known = this.#versionOf(identity.key);
    if (known === undefined || (compareVersions(identity.version, known) ?? 0) >= 0) this.#drop(identity);
  }

  spoil(): void {
    this.#complete = false;
  }

  #hold(key: string, held: Held<T>): void {
    this.objects.set(key, held);
    this.gone.delete(key);
    this.invalid.delete(key);
  }

  #drop({ key, version }: ObjectIdentity): void {
    this.objects.delete(key);
    this.invalid.delete(key);
    this.gone.set(key, version);
  }

  #isOld({ key, version }: ObjectIdentity): boolean {
    const known = this.#versionOf(key);
    return known !== undefined && (compareVersions(version, known) ?? 1) <= 0;
  }

  #versionOf(key: string): string | undefined {
    return this.objects.get(key)?.version ?? this.gone.get(key);
  }
}
