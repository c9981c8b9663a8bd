import type { Writable } from 'node:stream';
import { seineVersion } from '../../api/version.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { KubeHttp } from '../../kubernetes/client/http-client.ts';
import { PodExec } from '../../kubernetes/client/pod-exec.ts';
import { safeLine, safeText } from '../escape.ts';
import { exitCodes } from '../exit-codes.ts';
import { type AgentPod, findAgents } from '../fleet/agents.ts';
import type { AgentsContext, ClusterFlags } from '../fleet/agents-command.ts';
import { usersAccess } from '../fleet/kubeconfig.ts';
import { agentsOn, nodeOfPod } from '../fleet/pod-nodes.ts';
import { failureText } from '../fleet/query-agent.ts';
import type { StandardOutput, Terminal } from '../terminal.ts';
import { count } from '../words.ts';
import type { CaptureOptions } from './capture-options.ts';
import { openOutput } from './capture-output.ts';

const OBJECTS_TIMEOUT_MS = 60_000;
/** Time for the end of the capture, after its own limit (ms). */
const MARGIN_MS = 10_000;
const LINE_CHARACTERS_MAX = 4_096;
const CONTAINER = 'agent';

/**
 * `seinectl capture` for a pod of another node: runs it in the container of the agent there, and copies its output.
 *
 * @returns the exit code
 */
export async function captureElsewhere(
  pod: string,
  options: CaptureOptions,
  flags: ClusterFlags,
  { terminal, env }: AgentsContext,
  stdout: StandardOutput = process.stdout,
): Promise<number> {
  try {
    if (options.write === '-' && stdout.isTTY === true)
      throw new SeineError('INVALID_INPUT', 'packets are nothing to be shown on a screen: redirect them, `-w - > FILE`, or name a file');
    const access = usersAccess(flags, env);
    const userAgent = `seinectl/${seineVersion}`;
    const http = new KubeHttp(access, userAgent);
    try {
      const agent = await agentFor(http, pod, flags);
      terminal.remark(safeLine(`capturing on ${agent.node}; Ctrl-C ends it`));
      await follow(new PodExec(access, userAgent), agent, pod, { options, terminal, output: await openOutput(options.write, stdout) });
      return exitCodes.ok;
    } finally {
      http.close();
    }
  } catch (thrown) {
    const error = SeineError.from(thrown, 'seinectl capture');
    if (error.code === 'INVARIANT') throw error;
    terminal.remark(safeText(`seinectl: ${failureText(error, flags.agentNamespace).replace(/^seinectl: /, '')}`));
    const exitCode = error.context['exitCode'];
    if (exitCode === exitCodes.different || exitCode === exitCodes.usage) return exitCode; // of the program on the node
    return error.code === 'INVALID_INPUT' ? exitCodes.usage : exitCodes.unreachable;
  }
}

async function agentFor(http: KubeHttp, pod: string, { node, agentNamespace }: ClusterFlags): Promise<AgentPod> {
  const signal = AbortSignal.timeout(OBJECTS_TIMEOUT_MS);
  const found = node ?? (await nodeOfPod(http, pod, signal)) ?? '';
  const [agent] = agentsOn(await findAgents(http, agentNamespace, undefined, signal), [found]);
  if (agent?.trouble === undefined && agent) return agent;
  throw new SeineError('UNAVAILABLE', `the agent of ${found} does not answer: ${agent?.trouble ?? 'it has no pod'}`);
}

interface RemoteCapture {
  readonly options: CaptureOptions;
  readonly terminal: Terminal;
  /** Undefined for lines. */
  readonly output: Writable | undefined;
}

/** @throws SeineError with the reason of the program there if it fails */
async function follow(exec: PodExec, agent: AgentPod, pod: string, { options, terminal, output }: RemoteCapture): Promise<void> {
  const { for: seconds, count: frames, bytes, interface: name, write } = options;
  const command = [
    ...['seinectl', 'capture', pod, '--for', `${seconds}s`, '--count', String(frames), '--megabytes', String(Math.ceil(bytes / 1_000_000))],
    ...(name === undefined ? [] : ['--interface', name]),
    ...(write === undefined ? [] : ['-w', '-']),
  ];
  const interrupted = new AbortController();
  const stop = (): void => interrupted.abort();
  process.once('SIGINT', stop).once('SIGTERM', stop);
  const limit = AbortSignal.any([interrupted.signal, AbortSignal.timeout(seconds * 1_000 + OBJECTS_TIMEOUT_MS + MARGIN_MS)]);
  try {
    const { namespace, pod: agentPod } = agent;
    const stream = await exec.open({ namespace, pod: agentPod, container: CONTAINER, command }, limit);
    limit.addEventListener('abort', () => stream.destroy(), { once: true });
    const lines = lineWriter(terminal);
    // Each frame has at most a header of 16 bytes beside its own bytes, and a line is shorter than a frame of 2,048.
    let left = bytes * 2 + frames * 2_048;
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      left -= chunk.length;
      if (left < 0) throw new SeineError('PROTOCOL', 'the capture is larger than its limit');
      if (output === undefined) lines.take(chunk);
      else if (!output.write(chunk)) await new Promise((resolve) => output.once('drain', resolve));
    }
    if (output === undefined) terminal.remark(count(lines.printed(), 'frame'));
  } catch (thrown) {
    if (!interrupted.signal.aborted) throw thrown;
  } finally {
    process.off('SIGINT', stop).off('SIGTERM', stop);
    if (output !== undefined && output !== process.stdout) await new Promise((resolve) => output.once('close', resolve).end());
  }
}

/** Prints the whole lines of a text in parts, and counts them. */
function lineWriter(terminal: Terminal): { readonly take: (chunk: Buffer) => void; readonly printed: () => number } {
  let rest = '';
  let printed = 0;
  const take = (chunk: Buffer): void => {
    const lines = (rest + chunk.toString('utf8')).split('\n');
    rest = (lines.pop() ?? '').slice(0, LINE_CHARACTERS_MAX);
    for (const line of lines) terminal.line(safeLine(line));
    printed += lines.length;
  };
  return { take, printed: () => printed };
}
