import { useEffect, useState } from 'preact/hooks';
import type { FormNames } from '../answers/explained.ts';
import type { ClusterTimeline, TimelineEntry } from '../answers/timeline.ts';
import { parameters, show } from './location.ts';
import { AskedState, Badge, type BadgeTone, CommandLine, Field, Freshness, Gaps, isOld, NodeNames, Selection, ViewLink } from './parts.tsx';
import { useAnswer } from './questions.ts';
import { shownSource } from './source.ts';
import { count } from './texts.ts';
import { PeriodButtons, TimelineLanes } from './timeline-lanes.tsx';

const kinds = { pod: 'Pod', service: 'Service', node: 'Node', policy: 'Policy' } as const;
const periods = { '10m': 'last 10 minutes', '30m': 'last 30 minutes', '2h': 'last 2 hours', '1d': 'last day', '7d': 'last 7 days' };
const orders = { time: 'by time', node: 'by node' };
const tones: Readonly<Record<TimelineEntry['weight'], BadgeTone>> = { bad: 'bad', warning: 'warn', plain: 'quiet' };

/** One agent reads its disk at each refresh, or all of them. */
const ONE_AGENT_REFRESH_MS = 15_000;
const ALL_AGENTS_REFRESH_MS = 60_000;

interface TimelineFormState {
  readonly kind: string;
  readonly name: string;
  readonly since: string;
  readonly until: string;
}

/** What happened to a pod, a Service, a node or a policy, on all nodes. */
export function TimelineView() {
  const { kind: given = 'pod', name = '', since = '30m', until = '' } = parameters.value;
  const kind = Object.hasOwn(kinds, given) ? given : 'pod';
  const [everyMs, setEveryMs] = useState(ALL_AGENTS_REFRESH_MS);
  // A period that has ended does not change.
  const refresh = until === '' ? { everyMs } : {};
  const asked = useAnswer<ClusterTimeline>(name === '' ? undefined : `timeline?${new URLSearchParams({ kind, name, since, until })}`, refresh);
  const { answer } = asked;
  useEffect(() => setEveryMs(answer?.agents === 1 ? ONE_AGENT_REFRESH_MS : ALL_AGENTS_REFRESH_MS), [answer?.agents]);
  return (
    <section aria-labelledby="timeline-title">
      <div class="title">
        <h1 id="timeline-title">Timeline</h1>
        {answer ? <Freshness asked={asked} /> : null}
      </div>
      <p>What happened to it, as the agents recorded it on their nodes, with the Events of the API server.</p>
      <TimelineForm question={{ kind, name, since, until }} />
      <AskedState asked={asked} what={`the timeline of ${kind} ${name}`} />
      {answer ? (
        <div class={isOld(asked) ? 'old' : ''}>
          <TimelineGaps timeline={answer} />
          <Events timeline={answer} nowMs={asked.atMs ?? 0} />
        </div>
      ) : null}
      <CommandLine words={['seinectl', 'timeline', kind, name || (kind === 'node' ? 'NAME' : 'NAMESPACE/NAME'), '--cluster', '--since', since, ...(until === '' ? [] : ['--until', until])]} answer={answer} name="timeline" />
    </section>
  );
}

function TimelineForm({ question }: { readonly question: TimelineFormState }) {
  const { kind, name, since, until } = question;
  const [form, setForm] = useState(question);
  useEffect(() => setForm({ kind, name, since, until }), [kind, name, since, until]);
  const names = useAnswer<FormNames>(`names?kind=${form.kind}`).answer?.names;
  return (
    <form
      class="form"
      onSubmit={(event) => {
        event.preventDefault();
        show({ view: 'timeline', kind: form.kind, name: form.name.trim(), since: form.since, until: form.until.trim() });
      }}
    >
      <Selection id="kind" label="Kind" value={form.kind} options={kinds} onSelect={(value) => setForm({ ...form, kind: value, name: '' })} />
      <Field
        id="name"
        label="Name"
        value={form.name}
        onInput={(value) => setForm({ ...form, name: value })}
        {...(names && { names })}
        hint={form.kind === 'node' ? 'NAME' : form.kind === 'policy' ? 'NAMESPACE/NAME, or NAME of a ClusterNetworkPolicy' : 'NAMESPACE/NAME'}
      />
      <Selection
        id="since"
        label="Period"
        value={form.since}
        options={Object.hasOwn(periods, form.since) ? periods : { ...periods, [form.since]: `since ${form.since.slice(0, 16).replace('T', ' ')}` }}
        onSelect={(value) => setForm({ ...form, since: value })}
      />
      <Field id="until" label="Until" value={form.until} onInput={(value) => setForm({ ...form, until: value })} hint="empty: now; 10m ago, or a time such as 2026-11-29T14:05:00Z" />
      <button type="submit" class="primary" disabled={form.name.trim() === ''}>
        Show
      </button>
    </form>
  );
}

/** What the answer lacks: an incomplete timeline must not look complete. */
function TimelineGaps({ timeline: { silent, agents, answered, off, withoutApi, more, events } }: { readonly timeline: ClusterTimeline }) {
  const missing = agents - answered - (off?.count ?? 0);
  return (
    <>
      {off ? (
        <div class="notice warn">
          <h2>{off.count === agents ? 'History is off' : `History is off on ${count(off.count, 'node')}`}</h2>
          <p>
            {off.count === agents ? 'No agent records what happens' : 'These agents do not record what happens'}. To turn it on, set <code>history.size</code> in the
            agent’s configuration, for example to <code>32MiB</code>, and restart the agents.
          </p>
          <NodeNames nodes={off.nodes} total={off.count} />
        </div>
      ) : null}
      <Gaps title={`${count(missing, 'agent')} of ${agents.toLocaleString('en')} did not answer, and events are missing`} silent={silent} />
      {withoutApi === null ? null : (
        <div class="notice warn">
          <h2>Without Events of the API server</h2>
          <p>{withoutApi}</p>
        </div>
      )}
      {more > 0 ? (
        <div class="notice warn">
          <h2>Older events are not shown</h2>
          <p>
            The period has {count(more, 'event')} before these {events.length.toLocaleString('en')}. Choose a shorter period, or use the command.
          </p>
        </div>
      ) : null}
    </>
  );
}

/** Part of a kind's name before its dot: events of `cni.add` and `cni.del` are filtered together. */
function familyOf({ kind }: TimelineEntry): string {
  return kind.split('.')[0] ?? kind;
}

const TROUBLE = '!';

function Events({ timeline, nowMs }: { readonly timeline: ClusterTimeline; readonly nowMs: number }) {
  const { events, answered } = timeline;
  const { only = '', order = 'time' } = parameters.value;
  const period = { fromMs: Date.parse(timeline.from), untilMs: timeline.until === null ? nowMs : Date.parse(timeline.until) };
  if (events.length === 0)
    return answered === 0 ? null : (
      <>
        <p>
          <Badge tone="quiet">No events</Badge> in this period. Choose a longer one: an agent keeps events until its history is full.
        </p>
        <PeriodButtons period={period} />
      </>
    );
  const families = [...Map.groupBy(events, familyOf)].toSorted(([a], [b]) => (a < b ? -1 : 1));
  const troubles = events.filter(({ weight }) => weight !== 'plain');
  const shown = only === '' ? events : only === TROUBLE ? troubles : events.filter((event) => familyOf(event) === only);
  const options = {
    '': `all (${events.length})`,
    [TROUBLE]: `failures and warnings (${troubles.length})`,
    ...Object.fromEntries(families.map(([family, of]) => [family, `${family} (${of.length})`])),
  };
  const set = (change: Readonly<Record<string, string>>): void => show({ ...parameters.value, ...change });
  return (
    <>
      <div class="form">
        <Selection id="only" label="Kind of event" value={only} options={only in options ? options : { ...options, [only]: `${only} (0)` }} onSelect={(value) => set({ only: value })} />
        <Selection id="order" label="Order" value={order === 'node' ? 'node' : 'time'} options={orders} onSelect={(value) => set({ order: value === 'time' ? '' : value })} />
      </div>
      <TimelineLanes subject={timeline.subject} events={shown} period={period} />
      <p class="quiet" role="status">
        {shown.length === events.length ? count(events.length, 'event') : `${shown.length.toLocaleString('en')} of ${count(events.length, 'event')}`}, times in UTC.
      </p>
      {order === 'node' ? <EventsByNode events={shown} /> : <EventList events={shown} withNodes day="h2" />}
    </>
  );
}

function EventsByNode({ events }: { readonly events: readonly TimelineEntry[] }) {
  const groups = [...Map.groupBy(events, placeOf)].toSorted(([a], [b]) => a.localeCompare(b, 'en', { numeric: true }));
  return (
    <>
      {groups.map(([place, of]) => (
        <section key={place}>
          <h2>
            {place} <span class="quiet">({of.length})</span>
          </h2>
          <EventList events={of} withNodes={of.some(({ nodeCount }) => nodeCount > 1)} day="h3" />
        </section>
      ))}
    </>
  );
}

function placeOf({ nodes, nodeCount }: TimelineEntry): string {
  return nodeCount === 0 ? 'API server' : nodeCount > 1 ? 'Several nodes' : (nodes[0] ?? '');
}

interface EventListProps {
  readonly events: readonly TimelineEntry[];
  readonly withNodes: boolean;
  /** Heading of a day. */
  readonly day: 'h2' | 'h3';
}

/** Days are headings, so that a line has only the time of the day. */
function EventList({ events, withNodes, day: Day }: EventListProps) {
  return (
    <>
      {[...Map.groupBy(events, ({ time }) => time.slice(0, 10))].map(([day, of]) => (
        <div key={day}>
          <Day class="day">{day}</Day>
          <ol class="events">
            {of.map((event, at) => (
              <EventLine key={`${event.time} ${event.kind} ${at}`} event={event} withNodes={withNodes} />
            ))}
          </ol>
        </div>
      ))}
    </>
  );
}

function EventLine({ event, withNodes }: { readonly event: TimelineEntry; readonly withNodes: boolean }) {
  const { time, kind, weight, about, text } = event;
  return (
    <li class={weight}>
      <EventTime time={time} />
      <Badge tone={tones[weight]}>{kind}</Badge>
      <span>
        {weight === 'plain' ? null : <strong>{weight === 'bad' ? 'failure: ' : 'warning: '}</strong>}
        {text}
        {about.map((subject) => (
          <span key={subject} class="about">
            {' '}
            <Subject subject={subject} />
          </span>
        ))}
      </span>
      {withNodes ? <Place event={event} /> : null}
    </li>
  );
}

/** Leads to the path of a packet at that time; not in bundles, of whose past there are no paths. */
function EventTime({ time }: { readonly time: string }) {
  const { kind = 'pod', name = '' } = parameters.value;
  const end = { pod: { from: name }, service: { to: `service:${name}` }, node: { from: `node:${name}` } }[kind];
  const text = <time dateTime={time}>{time.slice(11, 23)}</time>;
  if (!end || shownSource.value?.kind === 'bundles') return text;
  return (
    <ViewLink to={{ view: 'trace', ...end, at: time }}>
      {text}
      <span class="unseen"> trace a packet at this time</span>
    </ViewLink>
  );
}

function Place({ event: { nodes, nodeCount } }: { readonly event: TimelineEntry }) {
  if (nodeCount === 0) return <span class="quiet">API server</span>;
  if (nodeCount > 1) return <NodeNames nodes={nodes} total={nodeCount} />;
  const [node = ''] = nodes;
  return (
    <span>
      <ViewLink to={{ view: 'timeline', kind: 'node', name: node }}>{node}</ViewLink>
    </span>
  );
}

/** Another object of an event, with its own timeline. */
function Subject({ subject }: { readonly subject: string }) {
  const [kind = '', ...name] = subject.split('/');
  if (!Object.hasOwn(kinds, kind)) return <code>{subject}</code>;
  return <ViewLink to={{ view: 'timeline', kind, name: name.join('/'), since: parameters.value['since'] ?? '' }}>{subject}</ViewLink>;
}
