import { seineVersion } from '../../api/version.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { KubeHttp } from '../../kubernetes/client/http-client.ts';
import { PodExec } from '../../kubernetes/client/pod-exec.ts';
import { safeText } from '../escape.ts';
import { exitCodes } from '../exit-codes.ts';
import { findAgents } from '../fleet/agents.ts';
import { type Answers, answersJson, answersOf, gapLines, headline, isComplete } from '../fleet/answers.ts';
import { usersAccess } from '../fleet/kubeconfig.ts';
import type { ProcessVariables } from '../fleet/kubeconfig-files.ts';
import { askAgents } from '../fleet/query-agent.ts';
import { type OutputForm, print } from '../output.ts';
import type { Room } from '../table.ts';
import type { Terminal } from '../terminal.ts';
import { check, type FleetQuestion, policy, rotation, status, versions } from './questions.ts';

export interface ClusterOptions {
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly namespace: string;
  readonly pool?: string;
  /** Seconds, for each agent. */
  readonly timeout: number;
  readonly parallel: number;
  readonly output: OutputForm;
}

export type ClusterQuestion = 'status' | 'check' | 'versions' | 'policy' | 'rotate';

/** Queries all agents, and prints the result. @returns the exit code */
export async function look(what: ClusterQuestion, options: ClusterOptions, terminal: Terminal, env: ProcessVariables): Promise<number> {
  return await answered(terminal, () => {
    if (what === 'check') return ask(check, options, terminal, env);
    if (what === 'rotate') return ask(rotation, options, terminal, env);
    return ask({ status, versions, policy }[what], options, terminal, env);
  });
}

/** Returns an exit code also if the API server refuses, or cannot be reached. */
async function answered(terminal: Terminal, work: () => Promise<number>): Promise<number> {
  try {
    return await work();
  } catch (thrown) {
    const error = SeineError.from(thrown, 'seinectl cluster');
    if (error.code === 'INVARIANT') throw error;
    const cause = error.cause instanceof Error && error.code === 'INVALID_INPUT' ? `: ${error.cause.message}` : '';
    terminal.remark(safeText(`seinectl: ${error.rawMessage}${cause}`));
    return error.code === 'INVALID_INPUT' ? exitCodes.usage : exitCodes.unreachable;
  }
}

async function ask<T>(question: FleetQuestion<T>, options: ClusterOptions, terminal: Terminal, env: ProcessVariables): Promise<number> {
  const access = usersAccess(options, env);
  const userAgent = `seinectl/${seineVersion}`;
  const http = new KubeHttp(access, userAgent);
  const signal = new AbortController().signal;
  try {
    const fleet = await findAgents(http, options.namespace, options.pool, signal);
    if (fleet.pods.length === 0) throw noAgents(options);
    terminal.remark(`… ${fleet.pods.length} agents to query, ${options.parallel} at a time`);
    const asking = {
      ...(question.request && { request: question.request }),
      command: question.command(options.timeout),
      understand: question.understand,
      timeoutMs: options.timeout * 1_000,
      parallel: options.parallel,
      progress: progressOf(fleet.pods.length, terminal),
    };
    const answers = answersOf(fleet, await askAgents(new PodExec(access, userAgent), fleet.pods, asking, signal));
    return report(question, answers, options.output, terminal);
  } finally {
    http.close();
  }
}

function noAgents({ namespace, pool }: ClusterOptions): SeineError {
  const where = pool === undefined ? `namespace ${namespace}` : `pool ${pool} in namespace ${namespace}`;
  return new SeineError('UNAVAILABLE', `there is no agent's pod in ${where}: kubectl -n ${namespace} get daemonsets,pods`);
}

/** Number of agents up to which no progress is printed; of more, every tenth is. */
const FEW = 20;

function progressOf(all: number, terminal: Terminal): (asked: number, failures: number) => void {
  let reportedTenths = 0;
  return (asked, failures) => {
    const tenths = Math.floor((asked * 10) / all);
    if (all < FEW || tenths === reportedTenths) return;
    reportedTenths = tenths;
    terminal.remark(`… ${asked} of ${all} queried${failures > 0 ? `, ${failures} did not answer` : ''}`);
  };
}

function report<T>(question: FleetQuestion<T>, answers: Answers<T>, form: OutputForm, terminal: Terminal): number {
  if (form === 'json' || form === 'yaml') print(terminal, answersJson(answers), form);
  else for (const line of pageOf(question, answers, form === 'wide', terminal.room)) terminal.line(line);
  if (!isComplete(answers)) return exitCodes.unreachable;
  return answers.rows.every(({ answer }) => question.isFine(answer)) ? exitCodes.ok : exitCodes.different;
}

function pageOf<T>(question: FleetQuestion<T>, answers: Answers<T>, wide: boolean, room: Room): string[] {
  const faults = [...question.faults(answers, room), ...gapLines(answers, room)];
  const fine = isComplete(answers) && answers.rows.every(({ answer }) => question.isFine(answer)) && question.fine !== '';
  const table = question.table(answers, room, wide);
  return [
    headline(answers),
    ...(table.length > 0 ? ['', ...table] : []),
    ...(faults.length > 0 ? ['', ...faults] : []),
    ...(fine ? ['', room.paint('good', question.fine)] : []),
  ];
}
