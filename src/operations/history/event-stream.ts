import type { HistoryEvent } from '../../api/history.ts';
import { type EventData, eventText, type HistoryKind } from './event-kinds.ts';
import type { HistoryLine } from './read-segments.ts';

/** Port through which parts of the agent record events. Returns at once, and never throws. */
export interface EventRecorder {
  note<K extends HistoryKind>(kind: K, subjects: readonly string[], data: EventData<K>): void;
}

/** Limits of one event: names and causes come from outside. */
const SUBJECTS_MAX = 20;
const TEXT_MAX = 300;
const ITEMS_MAX = 20;

/** Event as it is stored: time, position, kind, subjects, data. */
interface StoredEvent {
  readonly t: number;
  /** Position among the events of one agent process, from 1. */
  readonly n: number;
  readonly k: string;
  readonly s: readonly string[];
  readonly d: Readonly<Record<string, unknown>>;
}

export function storedEvent(
  at: { readonly wallMs: number; readonly position: number },
  kind: string,
  subjects: readonly string[],
  data: object,
): StoredEvent {
  const bounded = Object.fromEntries(
    Object.entries(data).flatMap(([name, value]) => (value === undefined ? [] : [[name, boundedValue(value)]])),
  );
  return { t: Math.round(at.wallMs), n: at.position, k: kind, s: subjects.slice(0, SUBJECTS_MAX).map(boundedText), d: bounded };
}

function boundedValue(value: unknown): unknown {
  if (typeof value === 'string') return boundedText(value);
  if (typeof value === 'number') return Number.isFinite(value) ? Math.round(value * 10) / 10 : 0;
  if (typeof value === 'boolean') return value;
  if (Array.isArray(value)) {
    const kept = value.slice(0, ITEMS_MAX).map(boundedValue);
    return value.length > ITEMS_MAX ? [...kept, `${value.length - ITEMS_MAX} more`] : kept;
  }
  if (typeof value === 'object' && value !== null)
    return Object.fromEntries(
      Object.entries(value)
        .slice(0, ITEMS_MAX)
        .map(([name, each]) => [boundedText(name), boundedValue(each)]),
    );
  return null;
}

function boundedText(text: string): string {
  return text.length > TEXT_MAX ? `${text.slice(0, TEXT_MAX)}…` : text;
}

/** Returns the event of a line; undefined for a header, or a line that is not an event. */
export function readEvent({ t, k, s, d }: HistoryLine): HistoryEvent | undefined {
  if (typeof t !== 'number' || !Number.isFinite(t) || Math.abs(t) > 8.64e15 || typeof k !== 'string' || !Array.isArray(s)) return undefined;
  const data = typeof d === 'object' && d !== null ? (d as Readonly<Record<string, unknown>>) : {};
  const subjects = s.filter((each) => typeof each === 'string');
  return { time: new Date(t).toISOString(), kind: k, subjects, text: eventText(k, data), data };
}
