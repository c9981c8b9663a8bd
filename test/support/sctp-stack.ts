import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { Readable } from 'node:stream';
import { inNetns } from '../../lab/machine/netns.ts';

/**
 * The kernel's SCTP (RFC 9260) if present, else Debian's `libusrsctp-examples`: a whole stack in a process, on raw sockets. One in a
 * namespace: each sees all packets of it, and aborts unknown associations (section 8.4), the kernel's among them.
 */
const isKernels = existsSync('/proc/net/sctp');
const programs = '/usr/lib/usrsctp';
const kernels = join(import.meta.dirname, 'sctp-kernel.py');
/** Port of `echo_server` (RFC 862). */
export const sctpEchoPort = 7;

const everyMs = 50;
/** Answers this number behind are in flight, and this number will not come. */
const few = 10;
const many = 20;

/**
 * Echoes everything, at every address of the namespace.
 *
 * @returns ends it
 */
export function sctpEcho(netns: string): () => void {
  const child = isKernels
    ? started(netns, 'python3', [kernels, 'server', String(sctpEchoPort)])
    : started(netns, `${programs}/echo_server`, []);
  return () => void child.kill('SIGKILL');
}

/**
 * One association with an echo server: numbers at a steady rate, and those that came back. Both ends announce all their addresses, and
 * retransmit unanswered ones.
 */
export class SctpConversation {
  readonly #child: ChildProcess;
  readonly #timer: NodeJS.Timeout;
  #said = 0;
  #received = 0;

  constructor(netns: string, address: string) {
    const [port, anyPort, notInUdp] = [String(sctpEchoPort), '0', '0'];
    this.#child = isKernels
      ? started(netns, 'python3', [kernels, 'client', address, port])
      : started(netns, `${programs}/client`, [address, port, anyPort, notInUdp, notInUdp]);
    const lines = createInterface({ input: this.#child.stdout ?? Readable.from([]) });
    lines.on('line', (line) => {
      if (/^\d+$/.test(line)) this.#received = Number(line);
    });
    this.#child.stdin?.on('error', () => undefined); // it has ended, and prints nothing more
    this.#timer = setInterval(() => this.#child.stdin?.write(`${++this.#said}\n`), everyMs);
  }

  get isReceived(): boolean {
    return this.#received > 0 && this.#said - this.#received < few;
  }

  get isSilent(): boolean {
    return this.#said - this.#received >= many;
  }

  close(): void {
    clearInterval(this.#timer);
    this.#child.kill('SIGKILL');
  }
}

function started(netns: string, program: string, args: readonly string[]): ChildProcess {
  const { command, args: all } = inNetns(netns, program, args);
  return spawn(command, [...all], { stdio: ['pipe', 'pipe', 'ignore'] });
}
