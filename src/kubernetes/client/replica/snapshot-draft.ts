import { SeineError } from '../../../base/errors/seine-error.ts';
import { compareVersions } from '../reflector/reflector-machine.ts';
import { identityOf, type ObjectIdentity, type Resource } from '../resource.ts';
import type { Held, ReplicaStore } from './replica.ts';

/** The outcome for one object of a snapshot. */
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

/** A snapshot while it arrives. No reader sees it before it is complete. */
export class SnapshotDraft<T> {
  readonly objects = new Map<string, Held<T>>();
  /** Objects that the server said are gone, or of no use to us, and the version of that: live events come among the initial ones. */
  readonly gone = new Map<string, string>();
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

  /** Whether it says anything of an object, be it that it is gone. */
  has(key: string): boolean {
    return this.objects.has(key) || this.gone.has(key);
  }

  /** Takes over what is held of an object, if it is of the very same version. @returns whether it is */
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
        // The object exists: its last good value serves on, rather than none.
        const last = this.objects.get(read.key) ?? this.#store.held().get(read.key);
        if (last) this.#hold(read.key, last);
        this.invalid.set(read.key, read.error);
      }
    }
  }

  /** The object is gone; servers give the version of the deletion, or the object's last. */
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
