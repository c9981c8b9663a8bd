import { type FlowEnd, type FlowVerdict, type FlowView, flowVerdicts } from '../../api/flow-log.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { EdgeFlow, EdgeFlows } from '../../ui/answers/edge-flows.ts';
import { type Answers, answersOf } from '../fleet/answers.ts';
import { type FlowQuery, pathOf, rawCommand } from '../flows/flow-query.ts';
import { type MergedFlow, mergeFlows } from '../flows/merge-flows.ts';
import { readFlowLine } from '../flows/read-flows.ts';
import type { ClusterConnection } from './cluster-connection.ts';
import { NAMES_LISTED, silentGroups } from './node-groups.ts';
import { AGENTS_MAX, trafficQuestion } from './traffic-answer.ts';

/** Connections of the answer, and records of one agent: a connection may have several. */
const FLOWS_MAX = 50;
const RECORDS_MAX = 200;
const AGENT_TIMEOUT_MS = 15_000;
const NAME_CHARACTERS_MAX = 300;

/** Row of the view Traffic whose connections are asked for. */
interface EdgeQuestion {
  readonly source: string;
  readonly destination: string;
  readonly port?: number;
  readonly protocol?: string;
  readonly verdict?: FlowVerdict;
  readonly seconds: number;
  readonly first: number;
}

/** Answers the last connections between two ends. @throws SeineError `INVALID_INPUT` that names the field, `REFUSED` for a right, `UNAVAILABLE` */
export async function edgeFlowsAnswer(query: URLSearchParams, connection: ClusterConnection, signal: AbortSignal): Promise<EdgeFlows> {
  const asked = edgeQuestion(query);
  const fleet = await connection.fleet(signal);
  const pods = fleet.pods.slice(asked.first, asked.first + AGENTS_MAX);
  const flowQuery: FlowQuery = {
    ...{ filters: filtersOf(asked), since: asked.seconds, last: RECORDS_MAX, output: 'json' },
    agentsNamespace: connection.cluster.agentNamespace,
  };
  const question = {
    request: { path: pathOf(flowQuery) },
    command: rawCommand(flowQuery),
    understand: flowsIn,
    timeoutMs: AGENT_TIMEOUT_MS,
  };
  const answers = answersOf(fleet, await connection.ask(fleet, pods, question, signal));
  connection.assertExecAllowed(answers);
  return edgeFlowsOf(asked, answers);
}

/** @throws SeineError `INVALID_INPUT` that names the field and the value */
function edgeQuestion(query: URLSearchParams): EdgeQuestion {
  const { seconds, first } = trafficQuestion(query);
  const text = (field: string): string => (query.get(field) ?? '').slice(0, NAME_CHARACTERS_MAX);
  const [source, destination, protocol] = [text('source'), text('destination'), text('protocol')];
  for (const [field, value] of Object.entries({ source, destination }))
    if (value === '') throw new SeineError('INVALID_INPUT', `${field}: a name is required`);
  const port = text('port');
  if (port !== '' && !/^\d{1,5}$/.test(port)) throw new SeineError('INVALID_INPUT', `port: ${JSON.stringify(port)} is not a port`);
  const verdict = flowVerdicts.find((each) => each === text('verdict'));
  return {
    source,
    destination,
    seconds,
    first,
    ...(port && { port: Number(port) }),
    ...(protocol && { protocol }),
    ...(verdict && { verdict }),
  };
}

/** Filters that agents know: pods by the beginning of their names. Ports of a Service's clients differ from those of its endpoints. */
function filtersOf({ source, destination, verdict }: EdgeQuestion): FlowQuery['filters'] {
  const isPods = (end: string): boolean => /^[a-z0-9][-a-z0-9]*\/[-a-z0-9.]+$/.test(end);
  return [
    ...(isPods(source) ? [['from-pod', source] as const] : []),
    ...(isPods(destination) ? [['to-pod', destination] as const] : []),
    ...(verdict === 'denied' || verdict === 'refused' ? [['event', verdict] as const] : []),
  ];
}

function flowsIn(text: string): readonly FlowView[] {
  return text.split('\n').flatMap((written) => {
    if (written === '') return [];
    const line = readFlowLine(written);
    return 'flow' in line ? [line.flow] : [];
  });
}

/** Joins the records of agents. Pure. */
function edgeFlowsOf(asked: EdgeQuestion, { rows, failures }: Answers<readonly FlowView[]>): EdgeFlows {
  const flows = mergeFlows(rows.flatMap(({ answer }) => answer)).filter((flow) => isOf(flow, asked));
  return {
    source: asked.source,
    destination: asked.destination,
    flows: flows.slice(-FLOWS_MAX).reverse().map(shown),
    more: Math.max(0, flows.length - FLOWS_MAX),
    asked: rows.length + failures.length,
    answered: rows.length,
    silent: silentGroups(failures),
  };
}

function isOf(flow: MergedFlow, { source, destination, port, protocol, verdict }: EdgeQuestion): boolean {
  if (workloadOf(flow.source) !== source || workloadOf(flow.destination) !== destination || flow.event === 'gap') return false;
  if (protocol !== undefined && flow.protocol !== protocol) return false;
  if (port !== undefined && flow.destination.port !== port) return false;
  return verdict === undefined || flow.verdict === verdict;
}

/** Name of an end in summaries. */
function workloadOf({ kind, namespace, name, workload }: FlowEnd): string {
  if (kind === 'pod') return `${namespace}/${workload ?? name}`;
  return kind === 'node' ? `node ${name}` : kind;
}

function shown(flow: MergedFlow): EdgeFlow {
  const { time, event, verdict, protocol, source, destination, service, reason, repeated = 0, bytes, startedAt, endedAt, nodes } = flow;
  const lastedMs = Date.parse(endedAt ?? '') - Date.parse(startedAt ?? '');
  return {
    ...{ time, event, verdict, protocol, repeated },
    source: endText(source),
    destination: endText(destination),
    decisions: decisionsOf(flow),
    nodes: nodes.slice(0, NAMES_LISTED),
    ...(service?.name !== undefined && { service: `${service.namespace}/${service.name}` }),
    ...(reason !== undefined && { reason }),
    ...(bytes && isDigits(bytes.out) && isDigits(bytes.in) && { bytes: String(BigInt(bytes.out) + BigInt(bytes.in)) }),
    ...(lastedMs >= 0 && { seconds: lastedMs / 1_000 }),
  };
}

const isDigits = (text: string): boolean => /^\d{1,20}$/.test(text);

/** Decisions that name a rule or a policy. */
function decisionsOf({ egress, ingress }: MergedFlow): readonly string[] {
  return Object.entries({ egress, ingress }).flatMap(([direction, decision]) =>
    decision && decision.by.length > 0 ? [`${direction} ${decision.verdict} by ${decision.by.join(', ')}`] : [],
  );
}

function endText({ namespace, name, address, port }: FlowEnd): string {
  const end =
    name === undefined ? (address.includes(':') ? `[${address}]` : address) : namespace === undefined ? name : `${namespace}/${name}`;
  return port === undefined ? end : `${end}:${port}`;
}
