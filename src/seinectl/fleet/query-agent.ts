import { within } from '../../base/async/time-limit.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { PodExec } from '../../kubernetes/client/pod-exec.ts';
import type { AgentPod } from './agents.ts';

/** Answer of one agent, or the reason why there is none. */
export type AgentReply<T> = { readonly pod: AgentPod } & ({ readonly answer: T } | { readonly failure: string });

interface AskedQuestion<T> {
  /** Command to execute in the agent's container. */
  readonly command: readonly string[];
  /** @throws SeineError `PROTOCOL` for an invalid answer */
  readonly understand: (stdout: string) => T;
  /** Time limit for each agent (ms). */
  readonly timeoutMs: number;
  /** Number of agents queried in parallel. */
  readonly parallel: number;
  /** Called after each answer. */
  readonly progress: (asked: number, failures: number) => void;
}

const CONTAINER = 'agent';
const REMARK_CHARACTERS_MAX = 200;

/**
 * Queries every agent, `parallel` at a time. One that does not answer delays no other.
 *
 * @returns in the order of `pods`. @throws SeineError `CANCELLED` if the signal is aborted
 */
export async function askAgents<T>(
  exec: Pick<PodExec, 'run'>,
  pods: readonly AgentPod[],
  question: AskedQuestion<T>,
  signal: AbortSignal,
): Promise<AgentReply<T>[]> {
  const replies: AgentReply<T>[] = [];
  let next = 0;
  let asked = 0;
  let failures = 0;
  const worker = async (): Promise<void> => {
    for (let at = next++; at < pods.length; at = next++) {
      const pod = pods[at];
      if (pod === undefined) return;
      const reply: AgentReply<T> = { pod, ...(await askOne(exec, pod, question, signal)) };
      replies[at] = reply;
      if ('failure' in reply) failures++;
      question.progress(++asked, failures);
    }
  };
  await Promise.all(Array.from({ length: Math.min(question.parallel, pods.length) }, worker));
  return replies;
}

async function askOne<T>(
  exec: Pick<PodExec, 'run'>,
  pod: AgentPod,
  { command, understand, timeoutMs }: AskedQuestion<T>,
  signal: AbortSignal,
): Promise<{ readonly answer: T } | { readonly failure: string }> {
  if (pod.trouble !== undefined) return { failure: pod.trouble };
  const { namespace, pod: name } = pod;
  try {
    const { stdout, stderr, exitCode } = await exec.run({ namespace, pod: name, container: CONTAINER, command }, within(signal, timeoutMs));
    if (stdout.trim() === '') return { failure: `seinectl ended with ${exitCode}: ${firstLine(stderr)}` };
    return { answer: understand(stdout) };
  } catch (thrown) {
    const error = SeineError.from(thrown, 'query an agent');
    if (error.code === 'CANCELLED' || error.code === 'INVARIANT') throw error;
    return { failure: error.rawMessage };
  }
}

function firstLine(text: string): string {
  return (text.trim().split('\n')[0] ?? '').slice(0, REMARK_CHARACTERS_MAX) || 'no output';
}
