import { SeineError } from '../../base/errors/seine-error.ts';
import type { NodeQuestion, WholeTrace } from '../../operations/path/whole-trace.ts';
import { traceOverCluster } from '../../simulate/cluster/cluster-trace.ts';
import { reachObjectsOf } from '../../simulate/objects/cluster-objects.ts';
import { itemsOf } from '../../simulate/what-if/proposal.ts';
import { whatIf } from '../../simulate/what-if/what-if.ts';
import { safeLine } from '../escape.ts';
import type { OutputForm } from '../output.ts';
import { remarkLack } from '../reach/reports.ts';
import { type ReachOptions, showReachOf } from '../reach/show-commands.ts';
import { type ObjectSource, readManifests } from '../reach/sources.ts';
import { type TestOptions, testPolicies } from '../reach/test-command.ts';
import type { Terminal } from '../terminal.ts';
import { report } from '../trace/trace-report.ts';
import { noEvidence } from '../what-if/used-rules.ts';
import { reportWhatIf } from '../what-if/what-if-report.ts';
import { type SimulationFiles, simulationOf } from './simulated-source.ts';

export interface SimulatedTraceFlags {
  readonly family?: 'ipv4' | 'ipv6';
  readonly sourcePort?: string;
  readonly established?: true;
  readonly output: OutputForm;
}

export type SimulatedMatrixFlags = Omit<ReachOptions, keyof ObjectSource>;
export type SimulatedTestFlags = Pick<TestOptions, 'output' | 'coverage'>;

export interface SimulatedWhatIfFlags {
  readonly filename?: readonly string[];
  readonly delete?: readonly string[];
  readonly output: OutputForm;
}

interface AskedEnds {
  readonly from: string;
  readonly to: string;
  readonly port: string | undefined;
}

/** `seinectl simulate trace`. @returns the exit code */
export async function simulatedTrace(
  source: SimulationFiles,
  { from, to, port }: AskedEnds,
  { family, sourcePort, established, output }: SimulatedTraceFlags,
  terminal: Terminal,
): Promise<number> {
  const { cluster, recorded, lacks, remarks } = await simulationOf(source);
  const question: NodeQuestion = {
    ...{ from, to },
    ...(port !== undefined && { port }),
    ...(family && { family }),
    ...(sourcePort !== undefined && { 'source-port': sourcePort }),
    ...(established && { established: 'true' }),
  };
  const { traces, meanings } = await traceOverCluster(cluster, question, { recorded, hasServices: lacks.length === 0 });
  const code = report(traces, meanings, output, terminal);
  for (const remark of [...lacks, ...remarks, ...(recorded.size > 0 ? compiledNodes(traces, recorded) : [])])
    terminal.remark(safeLine(`seinectl: ${remark}`));
  return code;
}

/** Names the nodes of a path of which there is no bundle. */
function compiledNodes(traces: readonly WholeTrace[], recorded: ReadonlyMap<string, unknown>): readonly string[] {
  const nodes = traces.flatMap(({ paths }) => paths.flatMap(({ segments }) => segments.map(({ node }) => node)));
  return [...new Set(nodes)]
    .filter((node) => !recorded.has(node))
    .map((node) => `the flows of ${node} are compiled from the objects: there is no bundle of this node`);
}

/** `seinectl simulate matrix`. @returns the exit code */
export async function simulatedMatrix(source: SimulationFiles, flags: SimulatedMatrixFlags, terminal: Terminal): Promise<number> {
  const { cluster, lacks } = await simulationOf(source);
  for (const lack of lacks) remarkLack(lack, terminal);
  return showReachOf(reachObjectsOf(cluster.objects), flags, terminal);
}

/** `seinectl simulate whatif`. @returns the exit code */
export async function simulatedWhatIf(source: SimulationFiles, flags: SimulatedWhatIfFlags, terminal: Terminal): Promise<number> {
  const documents = (flags.filename ?? []).flatMap(readManifests).flatMap(itemsOf);
  const removed = flags.delete ?? [];
  if (documents.length === 0 && removed.length === 0)
    throw new SeineError('INVALID_INPUT', 'nothing is proposed: use -f FILE or --delete KIND/NAMESPACE/NAME after `whatif`');
  const { cluster, lacks } = await simulationOf(source);
  const result = whatIf(cluster.objects, { documents, removed });
  return reportWhatIf(
    result,
    { missing: lacks, remarks: [], used: noEvidence('a simulation has no traffic'), services: new Map() },
    flags.output,
    terminal,
  );
}

/** `seinectl simulate test`. @returns the exit code */
export async function simulatedTest(
  source: SimulationFiles,
  files: readonly string[],
  flags: SimulatedTestFlags,
  terminal: Terminal,
): Promise<number> {
  if ('manifests' in source) return await testPolicies(files, { ...flags, filename: source.manifests }, terminal, {});
  const { cluster, lacks } = await simulationOf(source);
  for (const lack of lacks) remarkLack(lack, terminal);
  return await testPolicies(files, { ...flags, known: reachObjectsOf(cluster.objects) }, terminal, {});
}
