import type { FlowLogState, FlowView } from '../../api/flow-log.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { AgentClient } from '../agent-client.ts';
import { exitCodes } from '../exit-codes.ts';
import type { Terminal } from '../terminal.ts';
import { lossLines } from './flow-lines.ts';
import { type FlowQuery, pathOf } from './flow-query.ts';
import { printFlows, printNewFlows, printSummaries } from './flows-page.ts';
import { readFlowLine, readSummaries } from './read-flows.ts';

/** Prints the answer of this node's agent unchanged, for a `seinectl` elsewhere. */
export async function printRaw(agent: AgentClient, options: FlowQuery, terminal: Terminal): Promise<number> {
  for await (const line of agent.lines(pathOf(options), 'GET', new AbortController().signal)) if (line !== '') terminal.line(line);
  return exitCodes.ok;
}

/** Prints connections of this node. @returns the exit code. @throws SeineError `UNAVAILABLE` if no agent answers */
export async function flowsHere(agent: AgentClient, options: FlowQuery, terminal: Terminal): Promise<number> {
  if (options.summary) {
    const { status, body } = await agent.get(pathOf(options));
    if (status !== 200) throw new SeineError(status === 400 ? 'INVALID_INPUT' : 'REFUSED', body.trim());
    const answer = readSummaries(body);
    printSummaries([answer], options.summary, options, terminal);
    return answer.state.enabled ? exitCodes.ok : exitCodes.different;
  }
  const flows: FlowView[] = [];
  let state: FlowLogState | undefined;
  const reported = new LossReport(terminal);
  for await (const written of agent.lines(pathOf(options), 'GET', new AbortController().signal)) {
    if (written === '') continue;
    const line = readFlowLine(written, options);
    if ('state' in line) {
      state = line.state;
      if (options.follow) reported.see(state);
    } else if (options.follow) printNewFlows([line.flow], options, terminal);
    else flows.push(line.flow);
  }
  if (state && !options.follow) printFlows(flows, [state], options, terminal);
  return state?.enabled === false ? exitCodes.different : exitCodes.ok;
}

/** Reports losses of nodes when they have grown. */
export class LossReport {
  readonly #terminal: Terminal;
  readonly #last = new Map<string, string>();
  /** Nodes whose log was off in their last answer; absent if that is reported at once. */
  readonly #off: Set<string> | undefined;

  /** @param isAskedOften true if a log that is off is reported from the second answer on: an agent that starts does not know its settings yet */
  constructor(terminal: Terminal, isAskedOften = false) {
    this.#terminal = terminal;
    this.#off = isAskedOften ? new Set() : undefined;
  }

  see(state: FlowLogState): void {
    if (state.enabled) this.#off?.delete(state.node);
    else if (this.#off && !this.#off.has(state.node)) {
      this.#off.add(state.node);
      return;
    }
    const lines = lossLines(state);
    const text = lines.join('\n');
    if (this.#last.get(state.node) === text) return;
    this.#last.set(state.node, text);
    for (const line of lines) this.#terminal.remark(line);
  }
}
