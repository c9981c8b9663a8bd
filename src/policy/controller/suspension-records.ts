import { SeineError } from '../../base/errors/seine-error.ts';

/** Target of a suspension. `node`: all pods of this node, with an empty name; `pod`: `namespace/name`. */
export interface SuspendedTarget {
  readonly what: 'pod' | 'namespace' | 'node';
  readonly name: string;
}

/** Suspension of policies for some pods for a limited time. */
export interface Suspension extends SuspendedTarget {
  /** Reason given by the operator, in one line. */
  readonly reason: string;
  /** Time by the wall clock (ms since the epoch). */
  readonly sinceMs: number;
  readonly untilMs: number;
  /** Same end by the clock since boot, and the id of that boot: the wall clock may be set back. */
  readonly bootEndMs: number;
  readonly bootId: string;
}

const VERSION = 1;
const kinds: readonly SuspendedTarget['what'][] = ['pod', 'namespace', 'node'];

export function encodeSuspensions(suspensions: readonly Suspension[]): string {
  return `${JSON.stringify({ version: VERSION, suspensions })}\n`;
}

/** Decodes suspensions; entries of another shape are left out. @throws SeineError `INVALID_INPUT` if the text is not such a document */
export function decodeSuspensions(text: string): readonly Suspension[] {
  const { version, suspensions } = objectOf(parse(text));
  if (version !== VERSION || !Array.isArray(suspensions)) throw new SeineError('INVALID_INPUT', 'no suspensions of this version');
  return suspensions.flatMap((each: unknown) => suspensionOf(objectOf(each)));
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new SeineError('INVALID_INPUT', 'no JSON', { cause });
  }
}

function objectOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}

function suspensionOf(found: Readonly<Record<string, unknown>>): readonly Suspension[] {
  const { name, reason, sinceMs, untilMs, bootEndMs, bootId } = found;
  const what = kinds.find((kind) => kind === found['what']);
  if (what === undefined || typeof name !== 'string' || typeof reason !== 'string' || typeof bootId !== 'string') return [];
  if (!isTime(sinceMs) || !isTime(untilMs) || !isTime(bootEndMs)) return [];
  return [{ what, name, reason, sinceMs, untilMs, bootEndMs, bootId }];
}

/** Reports whether a value is a time that `Date` can represent. */
function isTime(value: unknown): value is number {
  return typeof value === 'number' && value >= 0 && value <= 8.64e15;
}
