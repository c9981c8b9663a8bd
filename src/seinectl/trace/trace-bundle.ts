import * as z from 'zod';
import { SeineError } from '../../base/errors/seine-error.ts';
import { readInputs } from '../../operations/compiler-inputs/inputs-document.ts';
import { meaningFor } from '../../operations/path/path-meaning.ts';
import { followTrace, type NodeQuestion, type TraceAnswer } from '../../operations/path/whole-trace.ts';
import { inputsName, ownersName, policyEvidenceName } from '../../operations/support-bundle/agent-files.ts';
import { readArchive } from '../../operations/support-bundle/archive.ts';
import { heldName } from '../../operations/support-bundle/openflow-files.ts';
import type { ForwardedObjects } from '../../policy/verify/forwarding-reference/forwarding-reference.ts';
import { BundledNode } from '../../simulate/cluster/bundled-node.ts';
import { objectsOfEvidence } from '../reach/sources.ts';
import type { Terminal } from '../terminal.ts';
import { report, type TraceFlags } from './trace-report.ts';

const ownersSchema = z.object({ items: z.array(z.object({ owner: z.string() })) });

/** Objects and node of one bundle. */
interface ReadBundle {
  readonly node: BundledNode;
  /** Absent if the agent could not read them. They have no Services. */
  readonly objects?: ForwardedObjects;
}

/** Traces with the flows in support bundles. No cluster and no agent is asked. @returns the exit code */
export async function traceBundles(
  paths: readonly string[],
  question: NodeQuestion,
  { output }: Pick<TraceFlags, 'output'>,
  terminal: Terminal,
): Promise<number> {
  const bundles: ReadBundle[] = [];
  for (const path of paths) bundles.push(await readBundle(path));
  const first =
    bundles.find(({ node }) => node.hasPod(question.from)) ?? bundles.find(({ node }) => node.hasPod(question.to)) ?? bundles[0];
  if (!first) throw new SeineError('INVALID_INPUT', '--bundle: a file is required');
  const ask = async (name: string, asked: NodeQuestion): Promise<TraceAnswer> => {
    const bundle = bundles.find(({ node }) => node.name === name);
    if (!bundle) return { failure: `there is no bundle of this node: add --bundle FILE` };
    return { answer: await bundle.node.trace(new URLSearchParams({ ...asked })) };
  };
  const traces = await followTrace(await first.node.trace(new URLSearchParams({ ...question })), ask);
  const { objects } = bundles.find((each) => each.objects) ?? {};
  const isToService = question.to.startsWith('service:');
  const meanings = traces.map((trace) =>
    trace.paths.map((path) => (objects && !isToService && path.endpoints.length === 0 ? meaningFor(objects, trace, path) : undefined)),
  );
  return report(traces, meanings, output, terminal);
}

async function readBundle(path: string): Promise<ReadBundle> {
  const files = await readArchive(path, (name) => [inputsName, heldName, ownersName, policyEvidenceName].includes(name));
  const text = (name: string): string | undefined => {
    const bytes = files.get(name);
    return bytes && Buffer.from(bytes).toString('utf8');
  };
  const [inputs, held] = [text(inputsName), text(heldName)];
  if (inputs === undefined || held === undefined)
    throw new SeineError('INVALID_INPUT', `${path} has no ${inputs === undefined ? inputsName : heldName}`);
  const evidence = text(policyEvidenceName);
  const objects = evidence === undefined ? undefined : objectsOfEvidence(path, evidence);
  const pods = new Map(
    (objects?.pods ?? []).map(({ metadata, status }) => [
      `${metadata.namespace}/${metadata.name}`,
      (status.podIPs ?? []).map(({ ip }) => ip),
    ]),
  );
  const node = new BundledNode({ read: readInputs(inputs), heldText: held, owners: ownersIn(text(ownersName)), pods });
  return { node, ...(objects && { objects: { ...objects, services: [], slices: [] } }) };
}

function ownersIn(text: string | undefined): readonly string[] {
  if (text === undefined) return [];
  try {
    return ownersSchema.parse(JSON.parse(text)).items.map(({ owner }) => owner);
  } catch {
    return []; // names of owners are not needed for the verdict
  }
}
