import { SeineError } from '../../base/errors/seine-error.ts';
import type { NodeQuestion } from '../../operations/path/whole-trace.ts';
import { safeText } from '../escape.ts';
import { isWithoutRelay } from '../fleet/agent-relay.ts';
import type { ProcessVariables } from '../fleet/kubeconfig-files.ts';
import { failureText } from '../fleet/query-agent.ts';
import { withClusterSources } from '../recorded/cluster-sources.ts';
import type { Terminal } from '../terminal.ts';
import { traceAt } from './trace-at.ts';
import { type TraceFlags, traceExitCodes } from './trace-report.ts';

/** Traces with the histories of the agents on the path. Pods are found on the nodes where they are now. @returns the exit code */
export async function traceClusterAt(
  question: NodeQuestion,
  flags: TraceFlags & { readonly at: number },
  terminal: Terminal,
  env: ProcessVariables,
): Promise<number> {
  try {
    return await withClusterSources([question.from, question.to], flags, env, async ({ ofEnds, of }) =>
      traceAt(ofEnds, question, flags, terminal, (node) => Promise.resolve(of(node))),
    );
  } catch (thrown) {
    const error = SeineError.from(thrown, 'seinectl trace --at');
    if (error.code === 'INVARIANT') throw error;
    const cause = error.cause instanceof Error && error.code === 'INVALID_INPUT' ? `: ${error.cause.message}` : '';
    const older = isWithoutRelay(error) ? ': the agent is older than recorded inputs' : '';
    terminal.remark(safeText(`seinectl: ${failureText(error, flags.namespace)}${older || cause}`));
    return error.code === 'INVALID_INPUT' ? traceExitCodes.usage : traceExitCodes.incomplete;
  }
}
