import { SeineError } from '../../base/errors/seine-error.ts';
import type { NodeQuestion } from '../../operations/path/whole-trace.ts';
import { fromManifests } from '../../policy/reach/from-manifests.ts';
import { traceOverCluster } from '../../simulate/cluster/cluster-trace.ts';
import { SimulatedCluster } from '../../simulate/cluster/simulated-cluster.ts';
import { reachObjectsOf } from '../../simulate/objects/cluster-objects.ts';
import { itemsOf } from '../../simulate/what-if/proposal.ts';
import { whatIf } from '../../simulate/what-if/what-if.ts';
import type { OutputForm } from '../output.ts';
import { type ReachOptions, showReachOf } from '../reach/show-commands.ts';
import { type ObjectSource, readManifests } from '../reach/sources.ts';
import { type TestOptions, testPolicies } from '../reach/test-command.ts';
import type { Terminal } from '../terminal.ts';
import { report } from '../trace/trace-report.ts';
import { noEvidence } from '../what-if/used-rules.ts';
import { reportWhatIf } from '../what-if/what-if-report.ts';

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

/** Reads the objects of a simulation. @throws SeineError `INVALID_INPUT` with the file and the field */
export function simulatedCluster(paths: readonly string[]): SimulatedCluster {
  const { objects, served } = fromManifests(paths.flatMap(readManifests));
  return new SimulatedCluster({ ...objects, ...served });
}

/** `seinectl simulate trace`. @returns the exit code */
export async function simulatedTrace(
  paths: readonly string[],
  { from, to, port }: AskedEnds,
  { family, sourcePort, established, output }: SimulatedTraceFlags,
  terminal: Terminal,
): Promise<number> {
  const cluster = simulatedCluster(paths);
  const question: NodeQuestion = {
    ...{ from, to },
    ...(port !== undefined && { port }),
    ...(family && { family }),
    ...(sourcePort !== undefined && { 'source-port': sourcePort }),
    ...(established && { established: 'true' }),
  };
  const { traces, meanings } = await traceOverCluster(cluster, question);
  return report(traces, meanings, output, terminal);
}

/** `seinectl simulate matrix`. @returns the exit code */
export function simulatedMatrix(paths: readonly string[], flags: SimulatedMatrixFlags, terminal: Terminal): number {
  return showReachOf(reachObjectsOf(simulatedCluster(paths).objects), flags, terminal);
}

/** `seinectl simulate whatif`. @returns the exit code */
export function simulatedWhatIf(paths: readonly string[], flags: SimulatedWhatIfFlags, terminal: Terminal): number {
  const documents = (flags.filename ?? []).flatMap(readManifests).flatMap(itemsOf);
  const removed = flags.delete ?? [];
  if (documents.length === 0 && removed.length === 0)
    throw new SeineError('INVALID_INPUT', 'nothing is proposed: use -f FILE or --delete KIND/NAMESPACE/NAME after `whatif`');
  const result = whatIf(simulatedCluster(paths).objects, { documents, removed });
  return reportWhatIf(
    result,
    { missing: [], remarks: [], used: noEvidence('a simulation has no traffic'), services: new Map() },
    flags.output,
    terminal,
  );
}

/** `seinectl simulate test`. @returns the exit code */
export async function simulatedTest(
  paths: readonly string[],
  files: readonly string[],
  flags: SimulatedTestFlags,
  terminal: Terminal,
): Promise<number> {
  return await testPolicies(files, { ...flags, filename: paths }, terminal, {});
}
