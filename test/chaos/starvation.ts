import { readFileSync } from 'node:fs';
import { runOn } from './host.ts';
import type { Lab } from './lab.ts';

/** A packet socket buffers about 200 small packets, which arrive at a port of the streams in this time. */
const starvedMs = 100;

/** Losses of a userspace switch so far. */
interface Missed {
  /** Packets that the kernel dropped because the socket of `ovs-vswitchd` was full, by interface. */
  readonly dropped: ReadonlyMap<string, number>;
  readonly pid: number;
  /** Time for which its main thread, which forwards, was runnable without a CPU (ms). */
  readonly waitedMs: number;
}

/**
 * Reports whether a busy host kept the switch from its packets: its thread waited for a CPU, and meanwhile more packets arrived than its
 * sockets buffer. A switch that is busy with other work drops packets too, and does not wait.
 */
export class Starvation {
  readonly #lab: Lab;
  #before: Missed | undefined;
  #waits: readonly number[] = [];
  #drops: readonly number[] = [];

  constructor(lab: Lab) {
    this.#lab = lab;
  }

  /** Checks the time since the check before the last one: a loss is detected one step later. */
  async look(): Promise<boolean> {
    const now = await this.#missed();
    const before = this.#before;
    this.#before = now;
    // Later checks are measured from the first one.
    if (now === undefined || before === undefined) return false;
    const waited = now.waitedMs - (before.pid === now.pid ? before.waitedMs : 0);
    const dropped = [...now.dropped].reduce((sum, [socket, count]) => sum + count - (before.dropped.get(socket) ?? 0), 0);
    this.#waits = [...this.#waits.slice(-1), waited];
    this.#drops = [...this.#drops.slice(-1), dropped];
    return this.#waits.some((ms) => ms >= starvedMs) && this.#drops.some((count) => count > 0);
  }

  get says(): string {
    return `the switch waited ${this.#waits.map(Math.round).join(' and ')} ms for a processor, its sockets dropped ${this.#drops.join(' and ')}`;
  }

  async #missed(): Promise<Missed | undefined> {
    const { vswitchdPid: pid } = await this.#lab.now();
    if (pid === null) return undefined;
    const sockets = await runOn(this.#lab.tried, 'ss', '--packet', '--memory', '--no-header', '--extended');
    return { pid, waitedMs: waitedMsOf(readFileSync(`/proc/${pid}/schedstat`, 'utf8')), dropped: droppedBy(sockets) };
  }
}

/** @param schedstat of proc(5), `/proc/PID/schedstat`: nanoseconds on a CPU, nanoseconds runnable without one, and number of time slices */
function waitedMsOf(schedstat: string): number {
  return Number(schedstat.split(' ')[1]) / 1e6;
}

/**
 * @param sockets output of `ss --packet --memory --extended`: two lines each, of which the first has the inode, and the second `d` and the
 * number of drops
 */
export function droppedBy(sockets: string): ReadonlyMap<string, number> {
  const found = sockets.matchAll(/\bino:(?<inode>\d+)[\s\S]*?skmem:\([^)]*\bd(?<dropped>\d+)\)/g);
  return new Map([...found].map(({ groups }) => [groups?.['inode'] ?? '', Number(groups?.['dropped'])]));
}
