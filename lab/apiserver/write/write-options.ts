import type { ApiObject } from '../object/api-object.ts';

export type FieldValidation = 'Strict' | 'Warn' | 'Ignore';

/** Options of one write. */
export interface WriteOptions {
  readonly subresource?: string;
  /** Everything is checked, nothing is stored. */
  readonly dryRun?: boolean;
  /** Owner of the fields that change. */
  readonly fieldManager?: string;
  readonly fieldValidation?: FieldValidation;
  /** Takes ownership of fields that others applied. */
  readonly force?: boolean;
  /** Decides on the object before it is stored; throws the error that the client receives. */
  admit?(object: ApiObject, oldObject: ApiObject | undefined): void;
  /** Receives texts for `Warning` headers. */
  warn?(text: string): void;
}
