import { setTimeout as sleep } from 'node:timers/promises';
import type { FlowLogState, FlowSummaries, FlowView } from '../../api/flow-log.ts';
import { seineVersion } from '../../api/version.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { KubeHttp } from '../../kubernetes/client/http-client.ts';
import { PodExec } from '../../kubernetes/client/pod-exec.ts';
import { safeText } from '../escape.ts';
import { exitCodes } from '../exit-codes.ts';
import { RelayPool } from '../fleet/agent-relay.ts';
import { type AgentPod, type Fleet, findAgainMs, findAgents } from '../fleet/agents.ts';
import { type Answers, answersOf, gapLines, isComplete } from '../fleet/answers.ts';
import { usersAccess } from '../fleet/kubeconfig.ts';
import type { ProcessVariables } from '../fleet/kubeconfig-files.ts';
import { askAgents } from '../fleet/query-agent.ts';
import type { Terminal } from '../terminal.ts';
import { type FlowQuery, pathOf, rawCommand } from './flow-query.ts';
import { LossReport } from './flows-here.ts';
import { printFlows, printNewFlows, printSummaries } from './flows-page.ts';
import { FOLLOW_SINCE_S, FOLLOWED_MAX, followFlows, type NodeFlows } from './follow-flows.ts';
import { readFlowLine, readSummaries } from './read-flows.ts';

const AGENT_TIMEOUT_MS = 30_000;
const parallel = 16;
/** Prints connections of all nodes. @returns the exit code */
export async function flowsCluster(options: FlowQuery, terminal: Terminal, env: ProcessVariables): Promise<number> {
  try {
    return await withAgents(options, terminal, env);
  } catch (thrown) {
    const error = SeineError.from(thrown, 'seinectl flows');
    if (error.code === 'INVARIANT') throw error;
    const cause = error.cause instanceof Error && error.code === 'INVALID_INPUT' ? `: ${error.cause.message}` : '';
    terminal.remark(safeText(`seinectl: ${error.rawMessage}${cause}`));
    return error.code === 'INVALID_INPUT' ? exitCodes.usage : exitCodes.unreachable;
  }
}

/** Relays to agents, which stay open between questions, and the exec for agents without one. */
interface WayToAgents {
  readonly exec: PodExec;
  readonly relays: RelayPool;
}

async function withAgents(options: FlowQuery, terminal: Terminal, env: ProcessVariables): Promise<number> {
  const { agentsNamespace, node, summary, follow } = options;
  const access = usersAccess(options, env);
  const userAgent = `seinectl/${seineVersion}`;
  const http = new KubeHttp(access, userAgent);
  const exec = new PodExec(access, userAgent);
  const way: WayToAgents = { exec, relays: new RelayPool(exec) };
  try {
    const findFleet = (): Promise<Fleet> => findAgents(http, agentsNamespace, undefined, new AbortController().signal);
    const fleet = await findFleet();
    const pods = chosenPods(fleet.pods, options);
    const chosen = { ...fleet, pods, without: node === undefined ? fleet.without : [] };
    const find = async (): Promise<readonly AgentPod[]> => chosenPods((await findFleet()).pods, options);
    const finding = { find, findAgainMs: findAgainMs(fleet.pods.length) };
    if (follow && !summary) return await followAll(way, pods, options, { ...finding, terminal });
    if (summary) {
      const answers = answersOf(chosen, await ask(way, pods, options, readSummaries));
      printSummaries(
        answers.rows.map(({ answer }) => answer),
        summary,
        options,
        terminal,
      );
      return finish(answers, ({ state }: FlowSummaries) => state.enabled, terminal);
    }
    const answers = answersOf(chosen, await ask(way, pods, options, (text) => readNodeFlows(text, options)));
    const states = answers.rows.flatMap(({ answer }) => answer.state ?? []);
    printFlows(
      answers.rows.flatMap(({ answer }) => answer.flows),
      states,
      options,
      terminal,
    );
    return finish(answers, ({ state }) => state?.enabled === true, terminal);
  } finally {
    way.relays.close();
    http.close();
  }
}

/** @throws SeineError if there are none */
function chosenPods(all: readonly AgentPod[], { node, agentsNamespace }: FlowQuery): readonly AgentPod[] {
  const pods = all.filter((pod) => node === undefined || pod.node === node);
  if (pods.length > 0) return pods;
  throw new SeineError(
    node === undefined ? 'UNAVAILABLE' : 'INVALID_INPUT',
    node === undefined ? `there is no agent's pod in namespace ${agentsNamespace}` : `node ${node} has no agent`,
  );
}

async function ask<T>({ exec, relays }: WayToAgents, pods: readonly AgentPod[], query: FlowQuery, understand: (text: string) => T) {
  const ways = { request: { path: pathOf(query) }, command: rawCommand(query), relays };
  const question = { ...ways, understand, timeoutMs: AGENT_TIMEOUT_MS, parallel, progress: () => undefined };
  return await askAgents(exec, pods, question, new AbortController().signal);
}

function finish<T>(answers: Answers<T>, isOn: (answer: T) => boolean, terminal: Terminal): number {
  for (const line of gapLines(answers, terminal.room)) terminal.remark(line);
  if (!isComplete(answers)) return exitCodes.unreachable;
  return answers.rows.some(({ answer }) => isOn(answer)) ? exitCodes.ok : exitCodes.different;
}

function readNodeFlows(stdout: string, query: Pick<FlowQuery, 'now'>): NodeFlows {
  const flows: FlowView[] = [];
  let state: FlowLogState | undefined;
  for (const written of stdout.split('\n')) {
    if (written === '') continue;
    const line = readFlowLine(written, query);
    if ('state' in line) state = line.state;
    else flows.push(line.flow);
  }
  return { flows, state };
}

/** Follows all nodes. Ends with the process. */
async function followAll(
  way: WayToAgents,
  pods: readonly AgentPod[],
  options: FlowQuery,
  {
    terminal,
    ...finding
  }: { readonly find: () => Promise<readonly AgentPod[]>; readonly findAgainMs: number; readonly terminal: Terminal },
): Promise<never> {
  if (pods.length > FOLLOWED_MAX)
    throw new SeineError(
      'INVALID_INPUT',
      `at most ${FOLLOWED_MAX} nodes are followed, and there are ${pods.length}; choose one with --node`,
    );
  const { follow: _, last: __, ...rest } = options;
  const reported = new LossReport(terminal, true);
  return await followFlows(pods, {
    ask: (present) => {
      way.relays.keepOnly(present);
      return ask(way, present, { ...rest, since: FOLLOW_SINCE_S }, (text) => readNodeFlows(text, rest));
    },
    ...finding,
    print: (flows) => printNewFlows(flows, options, terminal),
    seeState: (state) => reported.see(state),
    remark: (text) => terminal.remark(safeText(`seinectl: ${text}`)),
    wallMs: () => Date.now(),
    pause: (ms) => sleep(ms),
  });
}
