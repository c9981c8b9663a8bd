import { pause } from '../../base/async/pause.ts';
import { within } from '../../base/async/time-limit.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { PodExec } from '../../kubernetes/client/pod-exec.ts';
import type { AgentClient } from '../agent-client.ts';
import { isWithoutRelay, type RelayPool, relayTo } from './agent-relay.ts';
import type { AgentPod } from './agents.ts';

/** Answer of one agent, or the reason why there is none. */
export type AgentReply<T> = { readonly pod: AgentPod } & ({ readonly answer: T } | { readonly failure: string });

export interface RelayRequest {
  readonly path: string;
  readonly method?: 'GET' | 'POST';
}

export interface AskedQuestion<T> {
  /** Request to the agent over the exec relay. Absent for a question that needs a program on the node. */
  readonly request?: RelayRequest;
  /** Several requests to one agent, instead of `request`. */
  readonly ask?: (agent: AgentClient, signal: AbortSignal) => Promise<T>;
  /** Relays that stay open between questions; absent: each ends with its answer. */
  readonly relays?: RelayPool;
  /** Command with the same answer, to execute in the container of an agent without relay. */
  readonly command: readonly string[];
  /** @throws SeineError `PROTOCOL` for an invalid answer */
  readonly understand: (text: string) => T;
  /** Time limit for each agent (ms). */
  readonly timeoutMs: number;
  /** Number of agents queried in parallel. Agents that take long do not count, up to three times this number. */
  readonly parallel: number;
  /** Called after each answer. */
  readonly progress: (asked: number, failures: number) => void;
}

type OneAnswer<T> = { readonly answer: T } | { readonly failure: string };

const CONTAINER = 'agent';
const REMARK_CHARACTERS_MAX = 200;
/** Time after which a query no longer delays others (ms). */
const LONG_MS = 1_000;
const LONG_MAX_FACTOR = 3;

/**
 * Queries every agent, `parallel` at a time. One that does not answer delays no other.
 *
 * @returns in the order of `pods`. @throws SeineError `CANCELLED` if the signal is aborted
 */
export async function askAgents<T>(
  exec: Pick<PodExec, 'run' | 'open'>,
  pods: readonly AgentPod[],
  question: AskedQuestion<T>,
  signal: AbortSignal,
): Promise<AgentReply<T>[]> {
  const replies: AgentReply<T>[] = [];
  const withoutRelay = new Set<string>();
  const long = new Set<Promise<void>>();
  let next = 0;
  let asked = 0;
  let failures = 0;
  const askAt = async (at: number, pod: AgentPod): Promise<void> => {
    const reply: AgentReply<T> = { pod, ...(await askOne(exec, pod, question, withoutRelay, signal)) };
    replies[at] = reply;
    if ('failure' in reply) failures++;
    question.progress(++asked, failures);
  };
  const worker = async (): Promise<void> => {
    for (let at = next++; at < pods.length; at = next++) {
      const pod = pods[at];
      if (pod === undefined) return;
      const asking = askAt(at, pod);
      if (await isDone(asking, LONG_MS)) continue;
      if (long.size >= question.parallel * LONG_MAX_FACTOR) await Promise.race(long);
      const whole: Promise<void> = asking.then(() => void long.delete(whole));
      whole.catch(() => undefined); // reported at the end
      long.add(whole);
    }
  };
  await Promise.all(Array.from({ length: Math.min(question.parallel, pods.length) }, worker));
  await Promise.all(long);
  return replies;
}

/** Waits for the work, or for the time. @throws like the work */
async function isDone(work: Promise<void>, ms: number): Promise<boolean> {
  const finished = new AbortController();
  try {
    return await Promise.race([work.then(() => true), pause(ms, finished.signal).then(() => false)]);
  } finally {
    finished.abort();
  }
}

async function askOne<T>(
  exec: Pick<PodExec, 'run' | 'open'>,
  pod: AgentPod,
  question: AskedQuestion<T>,
  withoutRelay: Set<string>,
  signal: AbortSignal,
): Promise<OneAnswer<T>> {
  if (pod.trouble !== undefined) return { failure: pod.trouble };
  const limit = within(signal, question.timeoutMs);
  try {
    if ((question.request ?? question.ask) !== undefined && !withoutRelay.has(pod.image)) {
      try {
        return { answer: await askByRelay(exec, pod, question, limit) };
      } catch (thrown) {
        if (!(thrown instanceof SeineError) || !isWithoutRelay(thrown)) throw thrown;
        withoutRelay.add(pod.image);
      }
    }
    return await runIn(exec, pod, question, limit);
  } catch (thrown) {
    const error = SeineError.from(thrown, 'query an agent');
    if (error.code === 'CANCELLED' || error.code === 'INVARIANT') throw error;
    return { failure: failureText(error, pod.namespace) };
  }
}

/** Text of a failure. For an exec that the API server forbids, it names the rights, and not the pod: it is the same for all agents. */
export function failureText({ rawMessage, context }: SeineError, namespace: string): string {
  const isForbidden = context['status'] === 403 && String(context['path']).endsWith('/exec');
  if (!isForbidden) return rawMessage;
  const [, before = '', reason = rawMessage] = /^(.*? 403 Forbidden: )pods "[^"]*" is forbidden: (.*)$/s.exec(rawMessage) ?? [];
  return `${before}${reason}; the user needs the rights to create and get pods/exec in namespace ${namespace}`;
}

async function askByRelay<T>(
  exec: Pick<PodExec, 'open'>,
  pod: AgentPod,
  { request, ask, understand, relays }: AskedQuestion<T>,
  signal: AbortSignal,
): Promise<T> {
  const relay = relays?.of(pod) ?? relayTo(exec, pod);
  try {
    if (ask) return await ask(relay.client, signal);
    return understand(await relay.client.text(request?.path ?? '', request?.method, signal));
  } finally {
    if (!relays) relay.close();
  }
}

async function runIn<T>(
  exec: Pick<PodExec, 'run'>,
  { namespace, pod }: AgentPod,
  { command, understand }: AskedQuestion<T>,
  signal: AbortSignal,
): Promise<OneAnswer<T>> {
  const { stdout, stderr, exitCode } = await exec.run({ namespace, pod, container: CONTAINER, command }, signal);
  if (stdout.trim() === '') return { failure: `seinectl ended with ${exitCode}: ${firstLine(stderr)}` };
  return { answer: understand(stdout) };
}

function firstLine(text: string): string {
  return (text.trim().split('\n')[0] ?? '').slice(0, REMARK_CHARACTERS_MAX) || 'no output';
}
