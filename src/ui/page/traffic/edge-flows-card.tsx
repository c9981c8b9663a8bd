import type { EdgeFlow, EdgeFlows } from '../../answers/edge-flows.ts';
import { parameters, type Parameters } from '../location.ts';
import { AskedState, Badge, CommandLine, Freshness, Gaps, isOld, NodeNames, ViewLink } from '../parts.tsx';
import { useAnswer } from '../questions.ts';
import { bytesText, count } from '../texts.ts';
import { VerdictBadge } from './traffic-edges.tsx';

const edgeFields = ['source', 'destination', 'port', 'protocol', 'verdict'] as const;

/** Last connections of the row that the address names: none without one. */
export function EdgeFlowsCard() {
  const { source = '', destination = '', for: period = '10m', first = '', port = '', protocol = '', verdict = '' } = parameters.value;
  const isAsked = source !== '' && destination !== '';
  const query = new URLSearchParams({ source, destination, for: period, ...(first && { first }), ...(port && { port }), ...(protocol && { protocol }), ...(verdict && { verdict }) });
  const asked = useAnswer<EdgeFlows>(isAsked ? `flows?${query}` : undefined);
  const { answer } = asked;
  if (!isAsked)
    return (
      <p class="quiet">
        Select a number of connections<span class="of-picture">, or a line of the picture,</span> to see the last connections.
      </p>
    );
  return (
    <section class="card" aria-label="Last connections">
      <div class="title">
        <h3>
          {source} → {destination}
          {port === '' ? '' : ` ${port}/${protocol}`}
          {verdict === '' ? '' : `, ${verdict === 'would-deny' ? 'would be denied' : verdict}`}
        </h3>
        <Freshness asked={asked} />
      </div>
      <p>
        <ViewLink to={withoutEdge(parameters.value)}>Close</ViewLink>
        {verdict === '' && port === '' ? null : (
          <>
            {' · '}
            <ViewLink to={{ ...parameters.value, port: '', protocol: '', verdict: '' }}>All between these two</ViewLink>
          </>
        )}
      </p>
      <AskedState asked={asked} what="the last connections" />
      {answer ? (
        <div class={isOld(asked) ? 'old' : ''}>
          <Gaps title={`${count(answer.asked - answer.answered, 'agent')} of ${answer.asked.toLocaleString('en')} did not answer, and connections are missing`} silent={answer.silent} />
          {answer.flows.length === 0 ? (
            <p>
              <Badge tone="quiet">No records</Badge> in this period: the log keeps the newest connections of a node.
            </p>
          ) : (
            <FlowTable flows={answer.flows} />
          )}
          {answer.more > 0 ? <p class="quiet">{count(answer.more, 'older connection')} not shown here: the command prints them.</p> : null}
        </div>
      ) : null}
      <CommandLine words={commandOf({ source, destination, port, verdict, period })} answer={answer} name="flows" />
    </section>
  );
}

function withoutEdge(all: Parameters): Parameters {
  return Object.fromEntries(Object.entries(all).filter(([name]) => !edgeFields.some((field) => field === name)));
}

interface EdgeWords {
  readonly source: string;
  readonly destination: string;
  readonly port: string;
  readonly verdict: string;
  readonly period: string;
}

function commandOf({ source, destination, port, verdict, period }: EdgeWords): string[] {
  const filter = (name: string, end: string): string[] => (end.includes('/') ? [name, end] : []);
  return [
    ...['seinectl', 'flows', ...filter('--from-pod', source), ...filter('--to-pod', destination)],
    ...(port === '' ? [] : ['--to-port', port]),
    ...(verdict === '' ? [] : ['--verdict', verdict]),
    ...['--since', period],
  ];
}

function FlowTable({ flows }: { readonly flows: readonly EdgeFlow[] }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: an area that scrolls has to be reachable with the keyboard (WCAG 2.1.1)
    <div class="scroll" tabindex={0} role="region" aria-label="Last connections, the newest first">
      <table class="edges">
        <thead>
          <tr>
            {['Time (UTC)', 'Event', 'From', 'To', 'Decided by', 'Bytes', 'Node'].map((title) => (
              <th key={title} scope="col" class={title === 'Bytes' ? 'number' : ''}>
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {flows.map((flow, at) => (
            <FlowRow key={`${flow.time} ${flow.source} ${at}`} flow={flow} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function FlowRow({ flow }: { readonly flow: EdgeFlow }) {
  const { time, event, verdict, protocol, source, destination, service, decisions, reason, repeated, bytes, seconds, nodes } = flow;
  return (
    <tr>
      <td>
        <time dateTime={time}>
          {time.slice(0, 10)} {time.slice(11, 23)}
        </time>
      </td>
      <td>
        {verdict === 'allowed' ? <Badge tone={event === 'closed' ? 'quiet' : 'good'}>{event}</Badge> : <VerdictBadge verdict={verdict} />}
        {repeated > 0 ? <small class="line">and {count(repeated, 'packet')} like it</small> : null}
      </td>
      <td>{source}</td>
      <td>
        {destination} {protocol}
        {service === undefined ? null : <small class="line">Service {service}</small>}
      </td>
      <td>
        {decisions.length === 0 && reason === undefined ? 'no policy' : decisions.join('; ')}
        {reason === undefined ? null : <small class="line">{reason}</small>}
      </td>
      <td class="number">
        {bytes === undefined ? '' : bytesText(bytes)}
        {seconds === undefined ? null : <small class="line">in {secondsText(seconds)}</small>}
      </td>
      <td>
        <NodeNames nodes={nodes} total={nodes.length} />
      </td>
    </tr>
  );
}

function secondsText(seconds: number): string {
  return seconds < 10 ? `${seconds.toFixed(1)} s` : `${Math.round(seconds).toLocaleString('en')} s`;
}
