import type { ApiObject } from '../object/api-object.ts';

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
  admit?(object: ApiObject, oldObject: ApiObject | undefined): void;
  /** Receives texts for `Warning` headers. */
  warn?(text: string): void;
}
