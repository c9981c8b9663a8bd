import type { NodeAttempts, PodAttempt } from '../../api/trace.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { Family, Ip } from '../../base/net/ip.ts';
import { NetworkNamespace } from '../../netlink/namespace.ts';
import { EchoSocket } from '../../netlink/packets/icmp-echo.ts';
import { TcpAttempt } from '../../netlink/sockets/tcp-attempt.ts';
import { podName } from '../../pods/ipam/lease.ts';
import { addressOf } from './trace-ends.ts';
import { type NamingPort, namesOf } from './trace-node.ts';
import { type TraceQuestion, traceQuestion } from './trace-question.ts';

/** Time limit of an attempt (ms): TCP sends its first packet again after one second, and then after two. */
const ATTEMPT_MS = 3_500;
/** Small enough for every path. */
const ECHO_BYTES = 84;

/**
 * Opens a connection from a socket in the network namespace of a pod of this node, as a process there would, and closes it: TCP, or an ICMP
 * echo. The receiver notices it.
 *
 * @throws SeineError `INVALID_INPUT` that names the field and the value, `UNAVAILABLE` without the pod's namespace
 */
export async function attemptedNode(port: NamingPort, query: URLSearchParams, signal: AbortSignal): Promise<NodeAttempts> {
  const { environment, ipam } = port.running();
  const leases = ipam.leases();
  const question = traceQuestion(query, namesOf(port, environment, leases));
  const { from, protocol } = question;
  const lease = from.pod && leases.find((each) => each.state === 'allocated' && podName(each) === from.name);
  if (!lease) throw new SeineError('INVALID_INPUT', `from: ${JSON.stringify(from.name)} is not a pod of this node`);
  if (protocol !== 'tcp' && protocol !== 'icmp')
    throw new SeineError('INVALID_INPUT', `port: ${protocol.toUpperCase()} has no answer to wait for; use TCP or icmp`);
  const attempts: PodAttempt[] = [];
  for (const family of question.families) attempts.push(await attempted(question, family, lease.netns, signal));
  return { node: port.config.nodeName, attempts };
}

async function attempted(question: TraceQuestion, family: Family, netns: string, signal: AbortSignal): Promise<PodAttempt> {
  const ends = { from: addressOf(question.from.addresses, family), to: addressOf(question.to.addresses, family) };
  const startedMs = performance.now();
  const namespace = openNamespace(netns);
  try {
    const outcome =
      question.protocol === 'icmp' ? await echoed(namespace, ends, signal) : await connected(namespace, ends, question, signal);
    const port = question.port === undefined ? {} : { port: question.port };
    return { family, from: ends.from.text, to: ends.to.text, ...port, outcome, milliseconds: Math.round(performance.now() - startedMs) };
  } finally {
    namespace.close();
  }
}

interface AttemptEnds {
  readonly from: Ip;
  readonly to: Ip;
}

function openNamespace(netns: string): NetworkNamespace {
  try {
    return NetworkNamespace.open(netns);
  } catch (thrown) {
    const { rawMessage } = SeineError.from(thrown, 'open the namespace of the pod');
    throw new SeineError('UNAVAILABLE', `the network namespace of the pod cannot be opened: ${rawMessage}`);
  }
}

async function connected(
  namespace: NetworkNamespace,
  ends: AttemptEnds,
  { port = 0 }: TraceQuestion,
  signal: AbortSignal,
): Promise<PodAttempt['outcome']> {
  const attempt = namespace.run(() => TcpAttempt.open({ ...ends, port }));
  try {
    return await attempt.outcome(ATTEMPT_MS, signal);
  } finally {
    attempt.close();
  }
}

async function echoed(namespace: NetworkNamespace, ends: AttemptEnds, signal: AbortSignal): Promise<PodAttempt['outcome']> {
  const echo = namespace.run(() => EchoSocket.open(ends));
  try {
    const outcome = await echo.ask(ECHO_BYTES, ATTEMPT_MS, signal);
    return ({ answered: 'answered', silent: 'timed out', tooLong: 'no route', noRoute: 'no route' } as const)[outcome];
  } finally {
    echo.close();
  }
}
