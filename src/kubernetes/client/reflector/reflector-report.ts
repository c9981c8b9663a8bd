import type { SeineError } from '../../../base/errors/seine-error.ts';
import type { ReflectorState } from './reflector-machine.ts';

/** Reports of a reflector as events occur; for logs and metrics. */
export type ReflectorReport =
  | { readonly what: 'restored'; readonly objects: number; readonly version: string }
  | { readonly what: 'synced'; readonly objects: number; readonly version: string; readonly tookMs: number }
  /** Retried after `waitMs`; `failures` counts consecutive ones. */
  | { readonly what: 'failed'; readonly error: SeineError; readonly failures: number; readonly waitMs: number }
  /** A watch has lived for a while after failures. */
  | { readonly what: 'recovered' }
  /** The server has only reached this version, and a newer one was seen; a quorum read decides if that lasts. */
  | { readonly what: 'behind'; readonly version: string; readonly seen: string }
  /** A snapshot missed too much; nothing is removed until a quorum read has answered. */
  | { readonly what: 'held'; readonly known: number; readonly missing: number }
  | { readonly what: 'released'; readonly missing: number }
  /** The quorum read has shown all that the snapshot missed. */
  | { readonly what: 'refuted'; readonly missing: number }
  /** An object that cannot be used; its last good value stays. */
  | { readonly what: 'invalid'; readonly key: string; readonly error: SeineError }
  /** A part of the stream that cannot be understood. */
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
  /** Age of the present watch (ms); undefined while there is none. */
  readonly watchAgeMs?: number;
  /** Time since the API server last sent anything about the resource (ms); undefined if it never did. */
  readonly silenceMs?: number;
  readonly lastError?: SeineError;
  readonly held?: { readonly known: number; readonly missing: number };
  /** Version that the server has reached, if a newer one was seen. */
  readonly behind?: string;
  /** Keys of objects that cannot be used, and the error of each. Bounded by the number of objects in the API server. */
  readonly invalid: ReadonlyMap<string, SeineError>;
}

/**
 * Reliability of a copy:
 * - `in step` the API server's last state, which can be followed
 * - `not confirmed` the API server has not confirmed it since this process began
 * - `held` a list lacked too much of it; a second one decides
 * - `refused` the agent may not read it (401, 403)
 * - `gone` the API server has no such resource (404); what was known of it stays
 * - `behind` the API server has not reached a version that was seen before, or has gone back
 * - `failing` the API server cannot be followed
 */
export type SourceState = 'in step' | 'not confirmed' | 'held' | 'refused' | 'gone' | 'behind' | 'failing';

/** Facts from which a state is derived; `lastError` is absent once the server has answered successfully. */
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
