import { SeineError } from '../../base/errors/seine-error.ts';
import { followTrace, type NodeQuestion, type TraceAnswer, type WholeTrace } from '../../operations/path/whole-trace.ts';
import { podsIn, RecordedNode } from '../../simulate/cluster/recorded-node.ts';
import { fileSource, type RecordedSource } from '../recorded/recorded-source.ts';
import type { Terminal } from '../terminal.ts';
import { report, type TraceFlags } from './trace-report.ts';

/** Node at the time of the trace. */
interface PastNode {
  readonly name: string;
  /** Time of the record (ms since the epoch). */
  readonly recordedMs: number;
  /** Its pods, with their addresses. */
  readonly pods: ReadonlyMap<string, readonly string[]>;
  /** @param pods those of the other nodes */
  readonly node: (pods: ReadonlyMap<string, readonly string[]>) => RecordedNode;
}

/** Reads the history of one more node that a packet passes; a text is the reason why there is none. */
type ReadNode = (node: string) => Promise<RecordedSource | string>;

/** Traces with the histories in files. @returns the exit code */
export async function traceFilesAt(
  paths: readonly string[],
  question: NodeQuestion,
  flags: TraceFlags & { readonly at: number },
  terminal: Terminal,
): Promise<number> {
  const sources: RecordedSource[] = [];
  for (const path of paths) sources.push(await fileSource(path));
  return await traceAt(sources, question, flags, terminal, () => Promise.resolve('there is no history of this node: add --bundle FILE'));
}

/**
 * Traces with the inputs that agents recorded until a time: the verdict *desired* of that time.
 *
 * @param sources histories of the nodes of sender and receiver
 * @returns the exit code. @throws SeineError `INVALID_INPUT` that names the field and the value, also for a time that is not recorded
 */
export async function traceAt(
  sources: readonly RecordedSource[],
  question: NodeQuestion,
  { at: atMs, output }: TraceFlags & { readonly at: number },
  terminal: Terminal,
  more: ReadNode,
): Promise<number> {
  const nodes = new Map<string, PastNode>();
  const add = async (source: RecordedSource): Promise<void> => {
    const node = await pastNode(source, atMs);
    nodes.set(node.name, node);
  };
  for (const source of sources) await add(source);
  const ask = async (name: string, asked: NodeQuestion): Promise<TraceAnswer> => {
    if (!nodes.has(name)) {
      const source = await more(name);
      if (typeof source === 'string') return { failure: source };
      await add(source);
    }
    const node = nodes.get(name);
    if (!node) return { failure: 'the history is of another node' };
    return { answer: await nodeWith(node, nodes).trace(new URLSearchParams({ ...asked })) };
  };
  const first = firstNode([...nodes.values()], question);
  const traces = await followTrace(await firstTrace(nodeWith(first, nodes), question, [...nodes.values()]), ask);
  return report(
    traces.map((trace) => pastTrace(trace, atMs, nodes)),
    [],
    output,
    terminal,
  );
}

async function pastNode(source: RecordedSource, atMs: number): Promise<PastNode> {
  const recorded = await source.inputsAt(atMs);
  const { inputs, node: name, atMs: recordedMs } = recorded;
  return {
    ...{ name, recordedMs, pods: podsIn(inputs) },
    node: (pods) => new RecordedNode({ node: name, inputs, policyEntries: recorded.policyEntries(), pods }),
  };
}

/** Names of pods on the other nodes are those of the same time. */
function nodeWith({ name, node }: PastNode, nodes: ReadonlyMap<string, PastNode>): RecordedNode {
  return node(new Map([...nodes.values()].filter((each) => each.name !== name).flatMap(({ pods }) => [...pods])));
}

function firstNode(nodes: readonly PastNode[], { from, to }: NodeQuestion): PastNode {
  const named = (end: string): PastNode | undefined => nodes.find(({ name, pods }) => pods.has(end) || end === `node:${name}`);
  const first = named(from) ?? named(to) ?? nodes[0];
  if (!first) throw new SeineError('INVALID_INPUT', '--bundle: a file is required');
  return first;
}

/** A pod that is there now may have been elsewhere: the message names what was searched. */
async function firstTrace(node: RecordedNode, question: NodeQuestion, nodes: readonly PastNode[]) {
  try {
    return await node.trace(new URLSearchParams({ ...question }));
  } catch (thrown) {
    const error = SeineError.from(thrown, 'trace');
    if (error.code !== 'INVALID_INPUT' || !/^(?:from|to): /.test(error.rawMessage)) throw thrown;
    const times = nodes.map(({ name, recordedMs }) => `${name} at ${new Date(recordedMs).toISOString()}`).join(', ');
    throw new SeineError('INVALID_INPUT', `${error.rawMessage} (searched: ${times})`, { cause: thrown });
  }
}

/** The flows that Open vSwitch had are not known. */
function pastTrace(trace: WholeTrace, atMs: number, nodes: ReadonlyMap<string, PastNode>): WholeTrace {
  const records = [...nodes.values()].map(({ name, recordedMs }) => ({ node: name, recorded: new Date(recordedMs).toISOString() }));
  return {
    ...trace,
    paths: trace.paths.map((path) => ({ ...path, verdict: path.desired, bridge: 'unknown' })),
    at: { asked: new Date(atMs).toISOString(), records },
  };
}
