import { useEffect, useState } from 'preact/hooks';
import type { FormNames } from '../../answers/explained.ts';
import type { ClusterTraffic, TrafficCell } from '../../answers/traffic.ts';
import { parameters, show } from '../location.ts';
import { MatrixGrid } from '../matrix-grid.tsx';
import { AskedState, Badge, CommandLine, Field, Freshness, Gaps, isOld, NodeNames, Selection, ViewLink } from '../parts.tsx';
import { useAnswer } from '../questions.ts';
import { count, shortNumber } from '../texts.ts';
import { EdgeFlowsCard } from './edge-flows-card.tsx';
import { EdgeTable, trafficOf } from './traffic-edges.tsx';
import { TrafficPicture } from './traffic-picture.tsx';

const SMALL_CLUSTER = 100;
const SMALL_REFRESH_MS = 15_000;
const LARGE_REFRESH_MS = 60_000;
/** Agents that are asked at once. */
const AGENTS_MAX = 500;

const periods = { '1m': 'last minute', '10m': 'last 10 minutes', '1h': 'last hour' };

/** Connections that the agents saw: between namespaces, and of the workloads of one. */
export function TrafficView() {
  const { namespace = '', find = '', for: period = '10m', first = '' } = parameters.value;
  const [isLarge, setIsLarge] = useState(false);
  const query = new URLSearchParams({ for: period, ...(namespace && { namespace }), ...(find && { find }), ...(first && { first }) });
  const asked = useAnswer<ClusterTraffic>(`traffic?${query}`, { everyMs: isLarge ? LARGE_REFRESH_MS : SMALL_REFRESH_MS });
  const { answer } = asked;
  useEffect(() => setIsLarge((answer?.asked ?? 0) > SMALL_CLUSTER), [answer?.asked]);
  return (
    <section aria-labelledby="traffic-title">
      <div class="title">
        <h1 id="traffic-title">Traffic</h1>
        <Freshness asked={asked} />
      </div>
      <p>Connections of pods that the flow logs of the nodes recorded, and what policies decided.</p>
      <TrafficForm agents={answer?.agents ?? 0} />
      <AskedState asked={asked} what="the traffic of the cluster" />
      {answer ? (
        <div class={isOld(asked) ? 'old' : ''}>
          <LogOff traffic={answer} />
          <Gaps
            title={`${count(answer.asked - answer.answered, 'agent')} of ${answer.asked.toLocaleString('en')} did not answer, and connections are missing`}
            silent={answer.silent}
          />
          <Traffic traffic={answer} />
        </div>
      ) : null}
      <CommandLine words={['seinectl', 'flows', 'matrix', ...(namespace ? ['-n', namespace] : []), '--for', period]} answer={answer} name="traffic" />
    </section>
  );
}

function TrafficForm({ agents }: { readonly agents: number }) {
  const { namespace = '', find = '', for: period = '10m', first = '' } = parameters.value;
  const [form, setForm] = useState({ namespace, find, period, first });
  useEffect(() => setForm({ namespace, find, period, first }), [namespace, find, period, first]);
  const names = useAnswer<FormNames>('names?kind=namespace').answer?.names;
  const parts = Array.from({ length: Math.ceil(agents / AGENTS_MAX) }, (_, at) => at * AGENTS_MAX);
  return (
    <form
      class="form"
      onSubmit={(event) => {
        event.preventDefault();
        const filter = form.namespace.trim() === '' ? '' : form.find.trim();
        show({ view: 'traffic', namespace: form.namespace.trim(), find: filter, for: form.period, first: form.first });
      }}
    >
      <Field id="namespace" label="Namespace" value={form.namespace} onInput={(value) => setForm({ ...form, namespace: value })} {...(names && { names })} hint="none: all namespaces" />
      <Field id="find" label="Workload" value={form.find} onInput={(value) => setForm({ ...form, find: value })} hint="part of a name, in a namespace" />
      <Selection
        id="period"
        label="Period"
        value={form.period}
        options={Object.hasOwn(periods, form.period) ? periods : { ...periods, [form.period]: `last ${form.period}` }}
        onSelect={(value) => setForm({ ...form, period: value })}
      />
      {parts.length > 1 ? (
        <Selection
          id="first"
          label="Nodes"
          value={form.first}
          options={Object.fromEntries(parts.map((at) => [at === 0 ? '' : String(at), `${at + 1} to ${Math.min(at + AGENTS_MAX, agents)} of ${agents}`]))}
          onSelect={(value) => setForm({ ...form, first: value })}
        />
      ) : null}
      <button type="submit" class="primary">
        Show
      </button>
    </form>
  );
}

/** The flow log is off by default: how to turn it on. */
function LogOff({ traffic: { off, answered } }: { readonly traffic: ClusterTraffic }) {
  if (!off) return null;
  const isAll = off.count === answered;
  return (
    <div class="notice warn">
      <h2>{isAll ? 'The flow log is off' : `The flow log is off on ${count(off.count, 'node')}`}</h2>
      <p>
        {isAll ? 'No node' : 'These nodes do not'} {isAll ? 'records' : 'record'} connections. This turns it on for all nodes, without a restart, until the manifest is applied again; <code>flowLog.enabled</code> in
        the configuration of the agents turns it on for good:
      </p>
      <p>
        <code>{`kubectl -n seine-system patch configmap seine-live --type merge -p '{"data":{"flowLog.enabled":"true"}}'`}</code>
      </p>
      {isAll ? null : <NodeNames nodes={off.nodes} total={off.count} />}
    </div>
  );
}

function Traffic({ traffic }: { readonly traffic: ClusterTraffic }) {
  const { matrix, namespace, answered, off } = traffic;
  if (answered === 0 || answered === off?.count) return null;
  return (
    <>
      <Limits traffic={traffic} />
      {namespace ? <OneNamespace traffic={namespace} seconds={traffic.countedSeconds} /> : matrix.cells.length === 0 ? <NoConnections /> : <Namespaces cells={matrix.cells} names={matrix.parties} />}
    </>
  );
}

function NoConnections() {
  return (
    <p>
      <Badge tone="quiet">No connections</Badge> were recorded in this period.
    </p>
  );
}

/** What the numbers do not contain. */
function Limits({ traffic: { losses, unnamed, completeFrom, agents, asked, first } }: { readonly traffic: ClusterTraffic }) {
  const lines = [
    ...(asked < agents ? [`These are nodes ${first + 1} to ${first + asked} of ${agents}: at most ${AGENTS_MAX} are shown at a time.`] : []),
    ...(completeFrom === null ? [] : [`Some logs are complete only since ${completeFrom.slice(11, 19)} UTC.`]),
    ...losses.map(({ text, count: number }) => `${number.toLocaleString('en')} ${text}.`),
    ...(unnamed > 0 ? [`${count(unnamed, 'connection')} between further workloads, which are not named.`] : []),
  ];
  return lines.length === 0 ? null : (
    <ul class="quiet">
      {lines.map((line) => (
        <li key={line}>{line}</li>
      ))}
    </ul>
  );
}

function cellOutcome(cell: TrafficCell | undefined): { readonly look: string; readonly text: string; readonly outcome: string } {
  if (!cell) return { look: 'none', text: '', outcome: 'no connections' };
  const { connections, denied } = cell;
  // The name of a button contains the text that it shows (WCAG 2.5.3).
  const outcome = `${shortNumber(connections)} connection${connections === 1 ? '' : 's'}, ${denied === 0 ? 'none' : shortNumber(denied)} denied`;
  if (denied === 0) return { look: 'wide allowed', text: `✓ ${shortNumber(connections)}`, outcome };
  return { look: `wide ${denied === connections ? 'denied' : 'in-part'}`, text: `${denied === connections ? '✕' : '◐'} ${shortNumber(connections)}`, outcome };
}

const isNamespace = (party: string): boolean => !party.startsWith('(');

function Namespaces({ cells, names }: { readonly cells: readonly TrafficCell[]; readonly names: readonly string[] }) {
  const byEnds = new Map(cells.map((cell) => [`${cell.from}\n${cell.to}`, cell]));
  const open = (from: string, to: string): void => {
    const namespace = [to, from].find(isNamespace);
    if (namespace === undefined || !byEnds.has(`${from}\n${to}`)) return;
    const other = namespace === to ? from : to;
    // Ends that are not pods have their own words; the rest of many namespaces cannot be searched for.
    const words = isNamespace(other) ? `${other}/` : { '(outside)': 'outside', '(nodes)': 'node ', '(unknown)': 'unknown' }[other];
    const find = other === namespace ? '' : (words ?? '');
    show(trafficOf({ namespace, find: find.trim() }));
  };
  return (
    <>
      <h2>Namespaces</h2>
      <p class="quiet">
        <span class="legend allowed">
          <span aria-hidden="true">✓</span> allowed
        </span>
        <span class="legend denied">
          <span aria-hidden="true">✕</span> denied
        </span>
        <span class="legend in-part">
          <span aria-hidden="true">◐</span> denied in part
        </span>
        Numbers of connections. A cell shows its workloads.
      </p>
      <MatrixGrid
        label="Connections between namespaces, from rows to columns"
        names={names}
        cellOf={(from, to) => cellOutcome(byEnds.get(`${from}\n${to}`))}
        isChosen={() => false}
        onSelect={open}
      />
    </>
  );
}

type OneNamespaceTraffic = NonNullable<ClusterTraffic['namespace']>;

function OneNamespace({ traffic: { name, edges, moreEdges, moreConnections }, seconds }: { readonly traffic: OneNamespaceTraffic; readonly seconds: number }) {
  const { find = '' } = parameters.value;
  return (
    <>
      <p>
        <ViewLink to={trafficOf({ namespace: '', find: '' })}>All namespaces</ViewLink>
        {' · '}
        <ViewLink to={{ view: 'policy', namespace: name }}>What policies of {name} allow</ViewLink>
      </p>
      <h2>
        Namespace {name}
        {find === '' ? '' : `, names with “${find}”`}
      </h2>
      {edges.length === 0 ? (
        <NoConnections />
      ) : (
        <>
          <TrafficPicture edges={edges} namespace={name} />
          <EdgeFlowsCard />
          <EdgeTable edges={edges} name={name} seconds={seconds} />
        </>
      )}
      {moreEdges > 0 ? (
        <p>
          {count(moreEdges, 'more row')} with {count(moreConnections, 'connection')}: search for a workload to see them.
        </p>
      ) : null}
    </>
  );
}
