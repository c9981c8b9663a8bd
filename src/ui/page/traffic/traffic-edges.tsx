import type { TrafficEdge } from '../../answers/traffic.ts';
import { type Parameters, parameters } from '../location.ts';
import { Badge, type BadgeTone, ViewLink } from '../parts.tsx';
import { byteRateText, bytesText, count, duration, rateText } from '../texts.ts';

const tones: Readonly<Record<TrafficEdge['verdict'], BadgeTone>> = { allowed: 'good', denied: 'bad', refused: 'bad', 'would-deny': 'warn' };
const numbers: ReadonlySet<string> = new Set(['Connections', 'Rate', 'Bytes']);

/** Parameters of the view for a namespace, in the same period and on the same nodes. */
export function trafficOf({ namespace, find }: { readonly namespace: string; readonly find: string }): Parameters {
  const { for: period = '', first = '' } = parameters.value;
  return { view: 'traffic', namespace, find, for: period, first };
}

export function VerdictBadge({ verdict }: { readonly verdict: TrafficEdge['verdict'] }) {
  return <Badge tone={tones[verdict]}>{verdict === 'would-deny' ? 'would deny' : verdict}</Badge>;
}

interface EdgeTableProps {
  readonly edges: readonly TrafficEdge[];
  readonly name: string;
  /** Time in which the connections were counted (s). */
  readonly seconds: number;
}

/** Connections with equal ends, port, verdict and rule, one row each. */
export function EdgeTable({ edges, name, seconds }: EdgeTableProps) {
  return (
    <>
      <h3 class="day">
        {count(edges.length, 'row')}, with most connections first; rates are means of the last {duration(seconds)}
      </h3>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: an area that scrolls has to be reachable with the keyboard (WCAG 2.1.1) */}
      <div class="scroll" tabindex={0} role="region" aria-label={`Connections of namespace ${name}`}>
        <table class="edges">
          <thead>
            <tr>
              {['Verdict', 'Connections', 'Rate', 'From', 'To', 'Port', 'Service', 'Rule', 'Bytes'].map((title) => (
                <th key={title} scope="col" class={numbers.has(title) ? 'number' : ''}>
                  {title}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {edges.map((edge) => (
              <EdgeRow key={keyOf(edge)} edge={edge} seconds={seconds} />
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}

/** Names of one row; its numbers change. */
function keyOf({ connections: _, bytes: __, ...names }: TrafficEdge): string {
  return JSON.stringify(names);
}

function EdgeRow({ edge, seconds }: { readonly edge: TrafficEdge; readonly seconds: number }) {
  const { source, destination, service, protocol, port, verdict, rule, connections, bytes } = edge;
  return (
    <tr>
      <td>
        <VerdictBadge verdict={verdict} />
      </td>
      <td class="number">
        <Connections edge={edge} />
      </td>
      <td class="number">{rateText(connections, seconds)}</td>
      <td>
        <Workload name={source} />
      </td>
      <td>
        <Workload name={destination} />
      </td>
      <td class="port">{port === undefined ? protocol : `${port}/${protocol}`}</td>
      <td>{service === undefined ? '' : <ViewLink to={{ view: 'explain', kind: 'service', name: service }}>{service}</ViewLink>}</td>
      <td>{rule ?? 'no policy'}</td>
      <td class="number">
        {bytes === undefined ? '' : bytesText(bytes)}
        {bytes === undefined ? null : <small class="line">{byteRateText(bytes, seconds)}</small>}
      </td>
    </tr>
  );
}

/** The number leads to the connections themselves. Ends that stand for others have none. */
function Connections({ edge: { source, destination, port, protocol, verdict, connections } }: { readonly edge: TrafficEdge }) {
  const text = connections.toLocaleString('en');
  if ([source, destination].some((end) => end.endsWith(' others)'))) return <>{text}</>;
  const edge = { source, destination, port: port === undefined ? '' : String(port), protocol, verdict };
  return (
    <ViewLink to={{ ...parameters.value, ...edge }}>
      {text}
      <span class="unseen">{` connections from ${source} to ${destination}, ${verdict}: show the last`}</span>
    </ViewLink>
  );
}

/** A workload leads to what it alone has. */
function Workload({ name }: { readonly name: string }) {
  const slash = name.indexOf('/');
  if (slash < 0) return <>{name}</>;
  return <ViewLink to={trafficOf({ namespace: name.slice(0, slash), find: name })}>{name}</ViewLink>;
}
