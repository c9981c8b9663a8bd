import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { bindUdpIn, connectTcpIn } from '../../lab/probe/sockets.ts';
import { SeineError } from '../../src/base/errors/seine-error.ts';
import { slowness } from './test-datapath.ts';

interface Attempts {
  /** SCTP needs a kernel with its sockets. */
  readonly protocol: 'tcp' | 'udp' | 'sctp';
  readonly address: string;
  readonly port: number;
  /** Seconds for which each attempt may wait for its end. */
  readonly seconds?: number;
  readonly count?: number;
  /** Attempts per second; absent: one after another. */
  readonly rate?: number;
}

/** End of an attempt: `connected`, `answered`, `silent`, or the name of an error; and its duration (ms). */
export type AttemptEnd = readonly [end: string, ms: number | null];

/** Opens connections from a network namespace, without blocking this process. */
export async function attempts(
  netns: string,
  { protocol, address, port, seconds = 5 * slowness, count = 1, rate = 0 }: Attempts,
): Promise<readonly AttemptEnd[]> {
  const script = join(import.meta.dirname, 'attempts.py');
  const command = ['python3', script, protocol, address, `${port}`, `${seconds}`, `${count}`, `${rate}`];
  const { stdout } = await promisify(execFile)('nsenter', [`--net=/run/netns/${netns}`, ...command], { maxBuffer: 2 ** 26 });
  return JSON.parse(stdout);
}

/** Opens one connection, or sends one datagram, from a socket of this process: without the start of a program. @returns its end */
export async function attempt(
  netns: string,
  { protocol, address, port, seconds = 5 * slowness }: Attempts & { readonly protocol: 'tcp' | 'udp' },
): Promise<AttemptEnd[0]> {
  const signal = AbortSignal.timeout(seconds * 1_000);
  return protocol === 'tcp' ? await connected(netns, address, port, signal) : await answered(netns, address, port, signal);
}

async function connected(netns: string, address: string, port: number, signal: AbortSignal): Promise<AttemptEnd[0]> {
  try {
    (await connectTcpIn(netns, address, port, signal)).destroy();
    return 'connected';
  } catch (thrown) {
    if (thrown instanceof SeineError && typeof thrown.context['errno'] === 'string') return thrown.context['errno'];
    if (signal.aborted) return 'silent';
    throw thrown;
  }
}

async function answered(netns: string, address: string, port: number, signal: AbortSignal): Promise<AttemptEnd[0]> {
  const socket = await bindUdpIn(netns, address.includes(':') ? '::' : '0.0.0.0', 0);
  const end = new Promise<AttemptEnd[0]>((resolve) => {
    socket.once('message', () => resolve('answered'));
    socket.on('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    signal.addEventListener('abort', () => resolve('silent'));
  });
  socket.connect(port, address, () => socket.send('asked'));
  return await end.finally(() => socket.close());
}
