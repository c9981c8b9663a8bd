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

/** True for what several nodes receive from the API server. */
const isReceived = ({ kind }: TimelineEvent): boolean => /^(?:object|endpoint)\./.test(kind);

/** Returns a text by which one event that arrives twice is recognized. */
export function eventKey({ time, kind, nodes, text }: TimelineEvent): string {
  return JSON.stringify([time, kind, nodes, text]);
}

/**
 * Merges events of several nodes by time, each once. An object of the API that several nodes received in the same version becomes one event,
 * at the time of the first; what a node received again is another one.
 */
export function mergedEvents(events: readonly TimelineEvent[]): readonly TimelineEvent[] {
  const merged: TimelineEvent[] = [];
  const seen = new Set<string>();
  /** Last of these, by what several nodes received. */
  const last = new Map<string, number>();
  for (const event of events.toSorted((a, b) => (a.time < b.time ? -1 : a.time > b.time ? 1 : 0))) {
    const key = eventKey(event);
    if (seen.has(key)) continue;
    seen.add(key);
    const received = isReceived(event) ? JSON.stringify([event.kind, event.data]) : undefined;
    const at = received === undefined ? undefined : last.get(received);
    const known = at === undefined ? undefined : merged[at];
    if (at !== undefined && known && !event.nodes.some((node) => known.nodes.includes(node)))
      merged[at] = { ...known, nodes: [...known.nodes, ...event.nodes] };
    else {
      const number = merged.push(event) - 1;
      if (received !== undefined) last.set(received, number);
    }
  }
  return merged;
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
