import { SeineError } from '../../base/errors/seine-error.ts';

/** `node`: all pods of this node, and the name is empty; `pod`: `namespace/name`. */
export interface SuspendedTarget {
  readonly what: 'pod' | 'namespace' | 'node';
  readonly name: string;
}

/** Policies that are not asked about some pods for a while. */
export interface Suspension extends SuspendedTarget {
  /** Given by whoever asked for it; in one line. */
  readonly reason: string;
  /** By the clock on the wall (ms since the epoch). */
  readonly sinceMs: number;
  readonly untilMs: number;
  /** The same end by the clock since the machine's start, and which start that was: the clock on the wall may be set back. */
  readonly bootEndMs: number;
  readonly bootId: string;
}

const VERSION = 1;
const kinds: readonly SuspendedTarget['what'][] = ['pod', 'namespace', 'node'];

export function encodeSuspensions(suspensions: readonly Suspension[]): string {
  return `${JSON.stringify({ version: VERSION, suspensions })}\n`;
}

/** Entries of another shape are left out. @throws SeineError `INVALID_INPUT` for what is no such document */
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

/** Which `Date` can say. */
function isTime(value: unknown): value is number {
  return typeof value === 'number' && value >= 0 && value <= 8.64e15;
}
