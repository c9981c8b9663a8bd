import type { NodeQuestion } from '../../operations/path/whole-trace.ts';
import { safeText } from '../escape.ts';
import type { ProcessVariables } from '../fleet/kubeconfig-files.ts';
import { sourcesFailure, withClusterSources } from '../recorded/cluster-sources.ts';
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
    const { text, isInvalid } = sourcesFailure(thrown, flags.namespace);
    terminal.remark(safeText(`seinectl: ${text}`));
    return isInvalid ? traceExitCodes.usage : traceExitCodes.incomplete;
  }
}
