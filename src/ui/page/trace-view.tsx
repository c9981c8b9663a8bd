import { useEffect, useId, useState } from 'preact/hooks';
import type { FormNames } from '../answers/explained.ts';
import type { TracedFamily, TracedNode, TracedProbe, TracedWay, TraceView as TraceAnswer } from '../answers/trace-view.ts';
import { type Parameters, parameters, show } from './location.ts';
import { AskedState, Badge, CommandLine, Field, Freshness, isOld, Sentence } from './parts.tsx';
import { useAnswer } from './questions.ts';

const DIFFER = 4;
const tones = { allowed: 'good', denied: 'bad', unknown: 'warn', lost: 'bad' } as const;
const verdictNames = { meaning: 'API objects', desired: 'agents', bridge: 'Open vSwitch', packet: 'a probe' } as const;

/** The path of a packet, hop by hop, with its verdicts. */
export function TraceView() {
  const asked = parameters.value;
  const { from = '', to = '', port = '', family = '', established = '', probe = '', at = '' } = asked;
  const query = new URLSearchParams({ from, to, port, family, established, probe, at });
  const trace = useAnswer<TraceAnswer>(from !== '' && to !== '' ? `trace?${query}` : undefined, { body: '' });
  return (
    <section aria-labelledby="trace-title">
      <div class="title">
        <h1 id="trace-title">Trace</h1>
        {trace.answer ? <Freshness asked={trace} /> : null}
      </div>
      <p>
        Where a packet goes, and who decides. The flows that are installed now are interpreted{probe === 'true' ? ', and one packet is sent as a probe' : ': no packet is sent'}.
      </p>
      <TraceForm asked={asked} />
      <AskedState asked={trace} what="this path" />
      {trace.answer ? (
        <div class={isOld(trace) ? 'old' : ''} aria-live="polite">
          {trace.answer.exitCode === DIFFER ? (
            <div class="notice bad" role="alert">
              <h2>The verdicts differ</h2>
              <p>For two readings, the verdicts below do not agree. The pair that differs locates the fault.</p>
            </div>
          ) : null}
          {trace.answer.traces.map((each) => (
            <FamilyPaths key={each.family} trace={each} />
          ))}
        </div>
      ) : null}
      <CommandLine words={commandOf(asked)} answer={trace.answer} name="trace" />
    </section>
  );
}

function commandOf({ from = 'FROM', to = 'TO', port = '', family = '', established = '', probe = '', at = '' }: Parameters): string[] {
  return [
    ...['seinectl', 'trace', from, to],
    ...(port === '' ? [] : [port]),
    ...(family === '' ? [] : ['--family', family]),
    ...(established === '' ? [] : ['--established']),
    ...(probe === '' ? [] : ['--probe']),
    ...(at === '' ? [] : ['--at', at]),
  ];
}

function TraceForm({ asked }: { readonly asked: Parameters }) {
  const pods = useAnswer<FormNames>('names?kind=pod').answer?.names ?? [];
  const services = useAnswer<FormNames>('names?kind=service').answer?.names ?? [];
  const [form, setForm] = useState<Parameters>(asked);
  // The address may change without the form, by the history of the browser.
  useEffect(() => setForm(asked), [asked]);
  const set = (name: string) => (value: string) => setForm({ ...form, [name]: value });
  const value = (name: string): string => form[name] ?? '';
  return (
    <form
      class="form"
      onSubmit={(event) => {
        event.preventDefault();
        show({ ...form, view: 'trace' });
      }}
    >
      <Field id="from" label="From" value={value('from')} onInput={set('from')} names={pods} hint="NAMESPACE/POD, node:NAME, outside or an address" />
      <Field
        id="to"
        label="To"
        value={value('to')}
        onInput={set('to')}
        names={[...services.map((name) => `service:${name}`), ...pods]}
        hint="also service:NAMESPACE/NAME"
      />
      <Field id="port" label="Port" value={value('port')} onInput={set('port')} hint="80, 53/UDP or icmp" />
      <div class="field">
        <label for="family">Family</label>
        <select id="family" value={value('family')} onChange={(event) => set('family')(event.currentTarget.value)}>
          <option value="">all that both ends have</option>
          <option value="ipv4">IPv4</option>
          <option value="ipv6">IPv6</option>
        </select>
      </div>
      <Field id="at" label="At" value={value('at')} onInput={(at) => setForm({ ...form, at, ...(at !== '' && { probe: '' }) })} hint="empty: now; 30m ago, or a time such as 2026-11-29T14:02:10Z" />
      <div class="actions">
        <Check
          label="A later packet of the connection"
          hint="Of a connection that is open, instead of the packet that opens one."
          isChecked={value('established') === 'true'}
          onCheck={(is) => set('established')(is ? 'true' : '')}
        />
        <Check
          label="Send a probe"
          hint="The agent sends one packet in the name of the sender through the data path of both nodes. It ends at the agent: no pod notices it."
          isChecked={value('probe') === 'true'}
          isDisabled={value('at') !== ''}
          onCheck={(is) => set('probe')(is ? 'true' : '')}
        />
        <button type="submit" class="primary" disabled={value('from') === '' || value('to') === ''}>
          Trace
        </button>
      </div>
    </form>
  );
}

interface CheckProps {
  readonly label: string;
  readonly hint?: string;
  readonly isChecked: boolean;
  readonly isDisabled?: boolean;
  readonly onCheck: (isChecked: boolean) => void;
}

function Check({ label, hint, isChecked, isDisabled = false, onCheck }: CheckProps) {
  const id = useId();
  return (
    <div class="field check">
      <label>
        <input type="checkbox" checked={isChecked} disabled={isDisabled} aria-describedby={hint === undefined ? undefined : id} onChange={(event) => onCheck(event.currentTarget.checked)} /> {label}
      </label>
      {hint === undefined ? null : <small id={id}>{hint}</small>}
    </div>
  );
}

/** Paths of one address family. */
export function FamilyPaths({ trace }: { readonly trace: TracedFamily }) {
  const { family, from, to, packet, paths, moreEndpoints, probe, at, way, entry } = trace;
  const port = packet.destinationPort === undefined ? packet.protocol : `${packet.destinationPort}/${packet.protocol}`;
  return (
    <section>
      <h2>
        {family === 'ipv4' ? 'IPv4' : 'IPv6'}: {from} → {to} {port}
      </h2>
      <p class="quiet">
        {packet.source} → {packet.destination}
        {way === undefined ? '' : `, ${way}`}
        {trace.connection === 'established' ? ', a packet of a connection that is assumed to be established' : ''}
      </p>
      {entry === undefined ? null : <p class="quiet">{entry}.</p>}
      {at ? <PastTime at={at} /> : null}
      {paths.map((path, at) => (
        <PathCard key={path.endpoints.join() || String(at)} path={path} />
      ))}
      {probe && probe.notes.length > 0 ? <Probe probe={probe} /> : null}
      {moreEndpoints > 0 ? <p class="quiet">{moreEndpoints} more endpoints were not traced.</p> : null}
    </section>
  );
}

/** Of the past, only what the agents required is known. */
function PastTime({ at: { asked, records } }: { readonly at: NonNullable<TracedFamily['at']> }) {
  return (
    <p>
      <Badge tone="quiet">at {asked}</Badge> By the inputs that were recorded at {records.map(({ node, recorded }) => `${recorded} on ${node}`).join(', ')}. What Open vSwitch and
      the API server had then is not known.
    </p>
  );
}

function Probe({ probe: { verdict, text, notes } }: { readonly probe: TracedProbe }) {
  return (
    <div class={`notice ${verdict === 'lost' ? 'bad' : 'plain'}`}>
      <h2>Probe</h2>
      <p>
        <Badge tone={tones[verdict]}>{verdict}</Badge> <Sentence text={text} />
      </p>
      {notes.map((note) => (
        <p key={note}>{note}</p>
      ))}
    </div>
  );
}

function PathCard({ path }: { readonly path: TracedWay }) {
  const { verdict, endpoints, stages, verdicts, missing } = path;
  return (
    <article class="card">
      <p class="verdict">
        <Badge tone={tones[verdict]}>{verdict}</Badge>
        {endpoints.length > 0 ? <span> to {endpoints.slice(0, 3).join(', ')}{endpoints.length > 3 ? ` and ${endpoints.length - 3} more` : ''}</span> : null}
      </p>
      <dl class="verdicts">
        {verdicts.map(({ of, verdict: each, why }) => (
          <div key={of}>
            <dt>By {verdictNames[of]}</dt>
            <dd>
              <Badge tone={each === null ? 'quiet' : tones[each]}>{each ?? 'not compared'}</Badge> <span class="quiet">{each === null ? '' : why}</span>
            </dd>
          </div>
        ))}
      </dl>
      <ol class="path">
        {stages.map((stage) => (
          <Stage key={stage.node} stage={stage} />
        ))}
        {missing ? (
          <li class="stage unknown">
            <h3>{missing.node}</h3>
            <p>
              <Badge tone="warn">unknown</Badge> {missing.reason}
            </p>
          </li>
        ) : null}
      </ol>
    </article>
  );
}

function Stage({ stage: { node, hops, result, drop, difference } }: { readonly stage: TracedNode }) {
  const visible = hops.filter(({ text }) => text !== '');
  return (
    <li class="stage">
      <h3>{node}</h3>
      <ol class="hops">
        {visible.map((hop) => (
          <li key={`${hop.table} ${hop.flow}`}>
            <code>{hop.table}</code>
            <span>{hop.text}</span>
          </li>
        ))}
      </ol>
      {drop ? (
        <div class="drop">
          <p>
            <Badge tone="bad">ends in {drop.table}</Badge> <code>{drop.name}</code>
            {drop.packets === null ? '' : `, ${drop.packets} such packets so far`}
          </p>
          <p>{drop.message}.</p>
          <p>
            <strong>Usual cause:</strong> {drop.cause}.
          </p>
          <p>
            <strong>What to do:</strong> <Sentence text={drop.remedy} />.
          </p>
        </div>
      ) : null}
      {result.map((line) => (
        <p key={line}>{line}</p>
      ))}
      {difference ? (
        <div class="drop">
          <p>
            <Badge tone="bad">flows differ in {difference.table}</Badge> {difference.owner ?? ''}
          </p>
          <p>
            Desired: <code>{difference.desired ?? 'no flow'}</code>
          </p>
          <p>
            Present: <code>{difference.bridge ?? 'no flow'}</code>
          </p>
        </div>
      ) : null}
      <details>
        <summary>All {hops.length} tables and their flows</summary>
        {/* biome-ignore lint/a11y/noNoninteractiveTabindex: an area that scrolls has to be reachable with the keyboard (WCAG 2.1.1) */}
        <div class="scroll" tabindex={0} role="region" aria-label={`Tables and flows of ${node}`}>
          <table>
            <thead>
              <tr>
                <th scope="col">Table</th>
                <th scope="col">Flow</th>
                <th scope="col">Owner</th>
              </tr>
            </thead>
            <tbody>
              {hops.map((hop) => (
                <tr key={`${hop.table} ${hop.flow}`}>
                  <th scope="row">{hop.table}</th>
                  <td>
                    <code>{hop.flow ?? 'no flow matches'}</code>
                  </td>
                  <td>{hop.owner ?? ''}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </details>
    </li>
  );
}
