import * as z from 'zod';
import { safeLine } from '../escape.ts';
import type { Tone } from '../paint.ts';
import type { Room } from '../table.ts';

/** Event of a node, or an Event of the API server, in a merged timeline. */
export interface TimelineEvent {
  readonly time: string;
  /** Nodes that recorded it; empty for an Event of the API server. */
  readonly nodes: readonly string[];
  readonly kind: string;
  readonly subjects: readonly string[];
  readonly text: string;
  readonly data: Readonly<Record<string, unknown>>;
}

const eventSchema = z.object({
  time: z.iso.datetime(),
  kind: z.string().max(100),
  subjects: z.array(z.string().max(600)).max(100),
  text: z.string().max(8_000),
  data: z.record(z.string(), z.unknown()).default({}),
});

/** Parses an event that an agent sent; undefined for a line that is empty, cut, or of another form. */
export function parsedEvent(line: string, nodes: readonly string[]): TimelineEvent | undefined {
  if (line === '') return undefined;
  try {
    return { ...eventSchema.parse(JSON.parse(line)), nodes };
  } catch {
    return undefined;
  }
}

/**
 * Merges events of several nodes by time. An object of the API that several nodes received in the same version becomes one event, at the time of
 * the first.
 */
export function mergedEvents(events: readonly TimelineEvent[]): readonly TimelineEvent[] {
  const merged = new Map<string, TimelineEvent>();
  const byTime = events.toSorted((a, b) => (a.time < b.time ? -1 : a.time > b.time ? 1 : 0));
  for (const event of byTime) {
    const { kind, nodes, data, time } = event;
    const isReceived = /^(?:object|endpoint)\./.test(kind);
    const key = JSON.stringify(isReceived ? [kind, data] : [kind, data, time, nodes, event.text]);
    const known = merged.get(key);
    merged.set(key, known ? { ...known, nodes: [...new Set([...known.nodes, ...nodes])] } : event);
  }
  return [...merged.values()];
}

interface LineOptions {
  /** Subject that the reader asked for, which lines omit. */
  readonly subject?: string;
  /** True if lines name the nodes. */
  readonly withNodes: boolean;
}

const bad =
  /^(?:cni\.failed|.*\.(?:failed|failing|refused|blocked|lost|dropsPods|unreadable|storage)|problem\.began|denied\.burst|mesh\.(?:slow|mtu))$/;
const warning = /^(?:drift\.found|agent\.(?:notReady|absent)|source\.(?:held|behind|invalid)|.*\.(?:suspended|suspendedPod|paused))$/;

/** Returns how much an event of a kind matters. */
export function toneOf(kind: string): Tone {
  if (bad.test(kind)) return 'bad';
  if (warning.test(kind)) return 'warning';
  return kind.startsWith('object.') || kind.startsWith('pod.') ? 'quiet' : 'strong';
}

/** `2026-11-29T14:02:10.204Z node-1  cni.add  pod/shop/web-1  ADD answered after 31 ms`. */
export function eventLine(
  { time, nodes, kind, subjects, text }: TimelineEvent,
  { subject, withNodes }: LineOptions,
  { paint }: Room,
): string {
  const others = subjects.filter((each) => each !== subject && !(each.startsWith('node/') && nodes.includes(each.slice(5))));
  const where = withNodes
    ? `${(nodes.length === 0 ? 'API' : nodes.length <= 2 ? nodes.join(',') : `${nodes.length} nodes`).padEnd(WHERE)} `
    : '';
  const about = others.length > 0 ? `${others.slice(0, 3).join(' ')}  ` : '';
  return `${time} ${safeLine(where)}${paint(toneOf(kind), safeLine(kind.padEnd(KIND)))} ${safeLine(about + text)}`;
}

const WHERE = 12;
const KIND = 18;
