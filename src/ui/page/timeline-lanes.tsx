import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import type { TimelineEntry } from '../answers/timeline.ts';
import { parameters, show } from './location.ts';
import { count, duration } from './texts.ts';

const WIDTH = 1_000;
const LEFT = 230;
const RIGHT = 965;
const TOP = 26;
const ROW = 26;
const LANES_MAX = 14;
const NAME_CHARACTERS = 28;
/** Marks that are nearer than this are one. */
const MARK_WIDTH = 7;
/** Shortest drag that selects a period, and shortest period (ms). */
const DRAG_MIN = 6;
const PERIOD_MIN_MS = 1_000;
const TICKS_MAX = 6;

/** Times in milliseconds since 1970. */
interface ShownPeriod {
  readonly fromMs: number;
  readonly untilMs: number;
}

interface LaneMark {
  readonly x: number;
  readonly weight: TimelineEntry['weight'];
  readonly events: readonly TimelineEntry[];
}

interface Lane {
  readonly name: string;
  readonly events: readonly TimelineEntry[];
}

interface LanesProps {
  readonly subject: string;
  readonly events: readonly TimelineEntry[];
  readonly period: ShownPeriod;
}

/** One lane for each subject, over time; a drag selects a period. The list below has the same for readers without the picture. */
export function TimelineLanes({ subject, events, period }: LanesProps) {
  const { lanes, more } = lanesOf(subject, events);
  const height = TOP + lanes.length * ROW + 6;
  const xOf = (ms: number): number => LEFT + ((ms - period.fromMs) / Math.max(1, period.untilMs - period.fromMs)) * (RIGHT - LEFT);
  return (
    <>
      <div class="picture lanes">
        <Brush period={period} height={height}>
          {ticksOf(period).map((ms) => (
            <g key={ms}>
              <line class="tick" x1={xOf(ms)} x2={xOf(ms)} y1={TOP - 4} y2={height - 4} />
              <text class="column" x={xOf(ms)} y={14} text-anchor="middle">
                {tickText(ms, period)}
              </text>
            </g>
          ))}
          {lanes.map((lane, at) => (
            <LaneRow key={lane.name} lane={lane} y={TOP + at * ROW + ROW / 2} xOf={xOf} />
          ))}
        </Brush>
      </div>
      {more > 0 ? <p class="quiet">{count(more, 'further subject')} without a lane.</p> : null}
      <PeriodButtons period={period} />
    </>
  );
}

/** Lanes of the subject, of other subjects and of nodes, those with most events first. */
function lanesOf(subject: string, events: readonly TimelineEntry[]): { readonly lanes: readonly Lane[]; readonly more: number } {
  const others = new Map<string, TimelineEntry[]>();
  const add = (name: string, event: TimelineEntry): void => void others.set(name, [...(others.get(name) ?? []), event]);
  for (const event of events) {
    for (const name of event.about) add(name, event);
    if (event.nodeCount === 0) add('API server', event);
    for (const node of event.nodes) if (`node/${node}` !== subject) add(`node/${node}`, event);
  }
  const sorted = [...others].map(([name, of]) => ({ name, events: of })).toSorted((a, b) => b.events.length - a.events.length || (a.name < b.name ? -1 : 1));
  return { lanes: [{ name: subject, events }, ...sorted.slice(0, LANES_MAX - 1)], more: Math.max(0, sorted.length - LANES_MAX + 1) };
}

interface LaneRowProps {
  readonly lane: Lane;
  readonly y: number;
  readonly xOf: (ms: number) => number;
}

function LaneRow({ lane: { name, events }, y, xOf }: LaneRowProps) {
  const text = name.length > NAME_CHARACTERS ? `${name.slice(0, NAME_CHARACTERS - 1)}…` : name;
  return (
    <g>
      <text x={LEFT - 12} y={y + 4} text-anchor="end">
        <title>{name}</title>
        {text}
      </text>
      <line class="lane" x1={LEFT} x2={RIGHT} y1={y} y2={y} />
      {marksOf(events, xOf).map((mark) => (
        <MarkShape key={`${mark.weight} ${mark.x}`} mark={mark} y={y} />
      ))}
    </g>
  );
}

/** Joins events that are too near to tell apart. */
function marksOf(events: readonly TimelineEntry[], xOf: (ms: number) => number): readonly LaneMark[] {
  const order: readonly TimelineEntry['weight'][] = ['plain', 'warning', 'bad'];
  const places = Map.groupBy(events, ({ time, weight }) => {
    const x = Math.min(RIGHT, Math.max(LEFT, xOf(Date.parse(time))));
    return `${weight} ${Math.round(x / MARK_WIDTH) * MARK_WIDTH}`;
  });
  return [...places]
    .map(([key, of]): LaneMark => {
      const [weight = 'plain', x = '0'] = key.split(' ');
      return { x: Number(x), weight: order.find((each) => each === weight) ?? 'plain', events: of };
    })
    .toSorted((a, b) => order.indexOf(a.weight) - order.indexOf(b.weight));
}

/** Weights differ in shape, not in colour alone. */
function MarkShape({ mark: { x, weight, events }, y }: { readonly mark: LaneMark; readonly y: number }) {
  const [first] = events;
  const shapes = {
    plain: <circle cx={x} cy={y} r={events.length > 1 ? 5 : 3.5} />,
    warning: <path d={`M${x} ${y - 7}l7 12h-14z`} />,
    bad: <path d={`M${x - 5} ${y - 5}l10 10M${x + 5} ${y - 5}l-10 10`} />,
  };
  return (
    <g class={`mark ${weight}`}>
      <title>{events.length === 1 && first ? `${first.time.slice(11, 23)} ${first.text}` : `${count(events.length, 'event')} from ${first?.time.slice(11, 23)}`}</title>
      {shapes[weight]}
    </g>
  );
}

interface BrushProps {
  readonly period: ShownPeriod;
  readonly height: number;
  readonly children: ComponentChildren;
}

/** Picture in which a drag selects a period. */
function Brush({ period, height, children }: BrushProps) {
  const [drag, setDrag] = useState<readonly [start: number, end: number]>();
  const xIn = (event: PointerEvent): number => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    return Math.min(RIGHT, Math.max(LEFT, ((event.clientX - box.left) / box.width) * WIDTH));
  };
  const msAt = (x: number): number => period.fromMs + ((x - LEFT) / (RIGHT - LEFT)) * (period.untilMs - period.fromMs);
  const finish = (): void => {
    setDrag(undefined);
    if (!drag || Math.abs(drag[1] - drag[0]) < DRAG_MIN) return;
    const [fromMs = 0, untilMs = 0] = drag.map(msAt).toSorted((a, b) => a - b);
    showPeriod({ fromMs, untilMs });
  };
  return (
    <svg
      viewBox={`0 0 ${WIDTH} ${height}`}
      role="img"
      aria-label="Events by subject over time; the list below has the same"
      onPointerDown={(event) => {
        event.currentTarget.setPointerCapture(event.pointerId);
        setDrag([xIn(event), xIn(event)]);
      }}
      onPointerMove={(event) => drag && setDrag([drag[0], xIn(event)])}
      onPointerUp={finish}
      onPointerCancel={() => setDrag(undefined)}
    >
      {children}
      {drag ? <rect class="drag" x={Math.min(...drag)} y={TOP - 4} width={Math.abs(drag[1] - drag[0])} height={height - TOP} /> : null}
    </svg>
  );
}

/** Shows another period: with a time for its beginning and end, so that the address always shows the same. */
function showPeriod({ fromMs, untilMs }: ShownPeriod): void {
  const nowMs = Date.now();
  const isOpen = untilMs >= nowMs;
  const end = isOpen ? nowMs : untilMs;
  const since = new Date(Math.min(fromMs, end - PERIOD_MIN_MS)).toISOString();
  show({ ...parameters.value, since, until: isOpen ? '' : new Date(end).toISOString() });
}

/** The same as a drag, with the keyboard, and on narrow screens, which have no picture. */
export function PeriodButtons({ period: { fromMs, untilMs } }: { readonly period: ShownPeriod }) {
  const span = untilMs - fromMs;
  const steps = [
    ['Zoom in', fromMs + span / 4, untilMs - span / 4],
    ['Zoom out', fromMs - span / 2, untilMs + span / 2],
    ['Earlier', fromMs - span / 2, untilMs - span / 2],
    ['Later', fromMs + span / 2, untilMs + span / 2],
  ] as const;
  const until = parameters.value['until'] ?? '';
  return (
    <fieldset class="steps">
      <legend class="unseen">Period</legend>
      {steps.map(([text, from, to]) => (
        <button key={text} type="button" disabled={(text === 'Later' && until === '') || (text === 'Zoom in' && span <= PERIOD_MIN_MS)} onClick={() => showPeriod({ fromMs: from, untilMs: to })}>
          {text}
        </button>
      ))}
      {until === '' ? null : (
        <button type="button" onClick={() => show({ ...parameters.value, until: '' })}>
          Up to now
        </button>
      )}
      <span class="quiet of-picture">● an event, larger: several; ▲ a warning; ✕ a failure.</span>
      <span class="quiet">
        {new Date(fromMs).toISOString().slice(0, 19).replace('T', ' ')} to {new Date(untilMs).toISOString().slice(0, 19).replace('T', ' ')} UTC, {duration(span / 1_000)}
      </span>
    </fieldset>
  );
}

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const tickSteps = [SECOND, 5 * SECOND, 15 * SECOND, MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 3 * HOUR, 12 * HOUR, DAY, 7 * DAY];

/** Whole times in the period, at most `TICKS_MAX`. */
function ticksOf({ fromMs, untilMs }: ShownPeriod): readonly number[] {
  const step = tickSteps.find((each) => (untilMs - fromMs) / each <= TICKS_MAX);
  if (step === undefined || !(untilMs > fromMs)) return [];
  const first = Math.ceil(fromMs / step) * step;
  return Array.from({ length: Math.floor((untilMs - first) / step) + 1 }, (_, at) => first + at * step);
}

function tickText(ms: number, { fromMs, untilMs }: ShownPeriod): string {
  const text = new Date(ms).toISOString();
  const span = untilMs - fromMs;
  return span > 2 * DAY ? text.slice(5, 10) : span > 5 * MINUTE ? text.slice(11, 16) : text.slice(11, 19);
}
