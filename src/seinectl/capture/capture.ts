import type { Writable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Items } from '../../api/entry.ts';
import type { PodView } from '../../api/object.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { type IfIndex, interfaceName } from '../../netlink/interface-name.ts';
import { getLink } from '../../netlink/links.ts';
import { FrameTap } from '../../netlink/packets/frame-tap.ts';
import { NetlinkSocket } from '../../netlink/socket.ts';
import type { AgentClient } from '../agent-client.ts';
import { safeLine } from '../escape.ts';
import { exitCodes } from '../exit-codes.ts';
import type { StandardOutput, Terminal } from '../terminal.ts';
import { count } from '../words.ts';
import type { CaptureOptions } from './capture-options.ts';
import { openOutput } from './capture-output.ts';
import { frameLine } from './frame-line.ts';
import { pcapHeader, pcapRecord } from './pcap.ts';

/** Limit of data that is captured faster than it can be written; more is dropped and counted (bytes). */
const WAITING_MAX = 16 * 1024 * 1024;

/** Destination of frames. */
interface Sink {
  take(frame: Uint8Array, bytes: number): void;
  close(): Promise<void>;
}

/**
 * `seinectl capture`: captures the frames of a pod, at the node's end of its interface, until a limit is reached or the command is
 * interrupted.
 *
 * @returns 1 if this node has no such pod
 * @throws SeineError `INVALID_INPUT`, `REFUSED`
 */
export async function capture(
  agent: AgentClient,
  name: string,
  options: CaptureOptions,
  terminal: Terminal,
  stdout: StandardOutput = process.stdout,
): Promise<number> {
  if (options.write === '-' && stdout.isTTY === true)
    throw new SeineError(
      'INVALID_INPUT',
      'packets are nothing to be shown on a screen: redirect them, `-w - > FILE`, name a file, or leave -w out for lines',
    );
  const full = name.includes('/') || /^[0-9a-f]{64}$/.test(name) ? name : `default/${name}`;
  const { items } = (await agent.json(`/v1/pods?${new URLSearchParams({ name: full })}`)) as Items<PodView>;
  const pod = attachmentOf(items, full, options.interface);
  if (pod === undefined) {
    terminal.remark(`seinectl: this node has no pod ${safeLine(full)}`);
    return exitCodes.different;
  }
  const index = indexOf(pod.hostInterface);
  terminal.remark(safeLine(`${pod.interface} of ${full}, at ${pod.hostInterface}; Ctrl-C ends it`));
  const output = await openOutput(options.write, stdout);
  const { frames, dropped } = await follow(index, pod, { output, options, terminal });
  const lost = dropped > 0 ? `, ${dropped} more dropped because they could not be written in time` : '';
  terminal.remark(`${count(frames, 'frame')}${lost}`);
  return exitCodes.ok;
}

/** @throws SeineError `INVALID_INPUT` if the pod has several interfaces and none is named, or not the named one */
function attachmentOf(pods: readonly PodView[], full: string, wanted: string | undefined): PodView | undefined {
  const found = wanted === undefined ? pods : pods.filter((pod) => pod.interface === wanted);
  const isUnknown = found.length === 0 && pods.length > 0;
  if (found.length <= 1 && !isUnknown) return found[0];
  const names = pods.map((pod) => pod.interface).join(', ');
  const text = isUnknown ? `has no interface ${wanted}` : 'has several interfaces';
  throw new SeineError('INVALID_INPUT', `${full} ${text}: --interface with one of ${names}`);
}

/** Looks up an interface by its name in the agent's answer, which is used only for a query to the kernel. @throws SeineError `REFUSED` */
function indexOf(hostInterface: string): IfIndex {
  const socket = NetlinkSocket.open();
  try {
    const link = getLink(socket, interfaceName(hostInterface));
    if (link !== undefined) return link.index;
  } finally {
    socket.close();
  }
  throw new SeineError('REFUSED', `there is no ${hostInterface} here: capture runs on the pod's node, in the node's network namespace`);
}

interface Following {
  readonly output: Writable | undefined;
  readonly options: CaptureOptions;
  readonly terminal: Terminal;
}

async function follow(index: IfIndex, { mac }: PodView, { output, options, terminal }: Following) {
  const end = new AbortController();
  const stop = (): void => end.abort();
  const tally = { frames: 0, bytes: 0, dropped: 0 };
  const sink = output === undefined ? linesTo(terminal, mac) : pcapTo(output, tally, stop);
  const tap = FrameTap.open(index, (frame, bytes) => {
    if (end.signal.aborted) return;
    sink.take(frame, bytes);
    tally.frames++;
    tally.bytes += frame.length;
    if (tally.frames >= options.count || tally.bytes >= options.bytes) stop();
  });
  process.once('SIGINT', stop).once('SIGTERM', stop);
  try {
    await sleep(options.for * 1_000, undefined, { signal: end.signal }).catch(() => undefined); // a limit, or an interruption
  } finally {
    process.off('SIGINT', stop).off('SIGTERM', stop);
    tap.close();
    await sink.close();
  }
  return { frames: tally.frames - tally.dropped, dropped: tally.dropped };
}

function linesTo(terminal: Terminal, podMac: string): Sink {
  return {
    take: (frame, bytes) => terminal.line(safeLine(`${clock()} ${frameLine(frame, bytes, podMac)}`)),
    close: () => Promise.resolve(),
  };
}

/** @param broken called if nothing can be written any more */
function pcapTo(output: Writable, tally: { dropped: number }, broken: () => void): Sink {
  let failure: unknown;
  output.on('error', (thrown) => {
    failure = thrown;
    broken();
  });
  output.write(pcapHeader());
  return {
    take: (frame, bytes) => {
      if (output.writableLength > WAITING_MAX) tally.dropped++;
      else output.write(pcapRecord(frame, bytes, nowMs()));
    },
    close: async () => {
      if (output !== process.stdout) await new Promise<void>((resolve) => output.once('close', resolve).end());
      // The reader of a stream may close it at any time.
      const isEnough = failure instanceof Error && 'code' in failure && failure.code === 'EPIPE';
      if (failure !== undefined && !isEnough) throw new SeineError('INVALID_INPUT', SeineError.from(failure, 'capture').rawMessage);
    },
  };
}

/** Returns milliseconds since 1970, with a fraction. */
function nowMs(): number {
  return performance.timeOrigin + performance.now();
}

function clock(): string {
  const now = nowMs();
  const micros = Math.floor((now % 1) * 1_000);
  return `${new Date(now).toISOString().slice(11, 23)}${String(micros).padStart(3, '0')}`;
}
