import { readFileSync } from 'node:fs';
import { runOn } from './host.ts';
import type { Lab } from './lab.ts';

/** A packet socket holds some 200 small packets, which is what comes by a port of the lanes in that time. */
const starvedMs = 100;

/** What a switch in userspace has missed so far. */
interface Missed {
  /** Packets that the kernel had no room for, by the socket that `ovs-vswitchd` reads of an interface. */
  readonly dropped: ReadonlyMap<string, number>;
  readonly pid: number;
  /** How long its main thread, which forwards, was ready and had no processor (ms). */
  readonly waitedMs: number;
}

/**
 * Whether a machine that is busy otherwise kept the switch from its packets: its thread waited for a processor, and meanwhile more came than
 * its sockets hold. A switch that does something else for as long drops packets too, and does not wait.
 */
export class Starvation {
  readonly #lab: Lab;
  #before: Missed | undefined;
  #waits: readonly number[] = [];
  #drops: readonly number[] = [];

  constructor(lab: Lab) {
    this.#lab = lab;
  }

  /** Looks at what came since the look before the last one: a loss is found out a step late. */
  async look(): Promise<boolean> {
    const now = await this.#missed();
    const before = this.#before;
    this.#before = now;
    // The first look is what later ones are measured from.
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

/** @param schedstat of proc(5), `/proc/PID/schedstat`: nanoseconds on a processor, nanoseconds ready and without one, and how often it ran */
function waitedMsOf(schedstat: string): number {
  return Number(schedstat.split(' ')[1]) / 1e6;
}

/** @param sockets as `ss --packet --memory --extended` prints them: two lines each, of which the first has the inode, and the second `d` and what was dropped */
export function droppedBy(sockets: string): ReadonlyMap<string, number> {
  const found = sockets.matchAll(/\bino:(?<inode>\d+)[\s\S]*?skmem:\([^)]*\bd(?<dropped>\d+)\)/g);
  return new Map([...found].map(({ groups }) => [groups?.['inode'] ?? '', Number(groups?.['dropped'])]));
}
