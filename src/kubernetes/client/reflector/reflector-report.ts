import type { SeineError } from '../../../base/errors/seine-error.ts';
import type { ReflectorState } from './reflector-machine.ts';

/** What a reflector says of itself as it happens; for logs and metrics. */
export type ReflectorReport =
  | { readonly what: 'restored'; readonly objects: number; readonly version: string }
  | { readonly what: 'synced'; readonly objects: number; readonly version: string; readonly tookMs: number }
  /** Tried again after `waitMs`; `failures` counts those in a row. */
  | { readonly what: 'failed'; readonly error: SeineError; readonly failures: number; readonly waitMs: number }
  /** A watch has lived for a while after failures. */
  | { readonly what: 'recovered' }
  /** The server has come to this version only, and one that is newer was seen; a quorum read decides if that lasts. */
  | { readonly what: 'behind'; readonly version: string; readonly seen: string }
  /** A snapshot missed too much; nothing is removed until a quorum read has answered. */
  | { readonly what: 'held'; readonly known: number; readonly missing: number }
  | { readonly what: 'released'; readonly missing: number }
  /** It has shown all that the snapshot missed. */
  | { readonly what: 'refuted'; readonly missing: number }
  /** An object that we cannot use; its last good value stays. */
  | { readonly what: 'invalid'; readonly key: string; readonly error: SeineError }
  /** A part of the stream that says nothing we understand. */
  | { readonly what: 'unreadable'; readonly why: string }
  | { readonly what: 'storage'; readonly error: SeineError };

export interface ReflectorStatus {
  readonly kind: string;
  readonly state: SourceState;
  readonly doing: ReflectorState['doing'];
  readonly waiting: boolean;
  readonly synced: boolean;
  readonly objects: number;
  readonly version: string;
  readonly failures: number;
  /** How long the present watch has lived (ms); undefined while there is none. */
  readonly watchAgeMs?: number;
  /** Since the API server last said anything of the resource (ms); undefined before it ever did. */
  readonly silenceMs?: number;
  readonly lastError?: SeineError;
  readonly held?: { readonly known: number; readonly missing: number };
  /** The version to which the server has come, if one that is newer was seen. */
  readonly behind?: string;
  /** Keys of objects we could not use, and what is wrong with each. Bounded by what the API server has. */
  readonly invalid: ReadonlyMap<string, SeineError>;
}

/**
 * How far a copy can be relied upon.
 * - `in step`       what the API server last said, and it can be followed
 * - `not confirmed` the API server has not confirmed it since this process began
 * - `held`          a list lacked too much of it; a second one decides
 * - `refused`       we may not read it (401, 403)
 * - `gone`          the API server says that there is no such resource (404); what was known of it stays
 * - `behind`        the API server has not come as far as what was seen before, or has gone back
 * - `failing`       the API server cannot be followed
 */
export type SourceState = 'in step' | 'not confirmed' | 'held' | 'refused' | 'gone' | 'behind' | 'failing';

/** What a state is made of; `lastError` is absent once the server has answered well. */
interface SourceFacts {
  readonly synced: boolean;
  readonly held: boolean;
  readonly behind: boolean;
  readonly lastError: SeineError | undefined;
}

export function sourceState({ synced, held, behind, lastError }: SourceFacts): SourceState {
  const status = lastError?.context['status'];
  if (status === 401 || status === 403) return 'refused';
  if (status === 404) return 'gone';
  if (held) return 'held';
  if (!synced) return 'not confirmed';
  if (behind) return 'behind';
  return lastError ? 'failing' : 'in step';
}
