import type { KubeObject } from './kube-object.ts';
import type { Registry } from './registry.ts';
import type { Cluster } from './resource.ts';
import type { Store } from './store.ts';

/** What serving a request needs. One for each server. */
export interface Core {
  readonly store: Store;
  readonly registry: Registry;
  readonly cluster: Cluster;
  /** Plural names of kinds whose cache is empty: lists and watches show none of them, and only a quorum read shows what there is. */
  readonly forgotten: ReadonlySet<string>;
  /** Milliseconds since 1970. */
  now(): number;
}

export type FieldValidation = 'Strict' | 'Warn' | 'Ignore';

/** How one write was asked for. */
export interface WriteOptions {
  readonly subresource?: string;
  /** Everything is checked, nothing is stored. */
  readonly dryRun?: boolean;
  /** Who owns the fields that change. */
  readonly fieldManager?: string;
  readonly fieldValidation?: FieldValidation;
  /** Takes ownership of fields that others applied. */
  readonly force?: boolean;
  /** Has the last word on what is about to be stored; throws what the client is told. */
  admit?(object: KubeObject, oldObject: KubeObject | undefined): void;
  /** Receives texts for `Warning` headers. */
  warn?(text: string): void;
}
