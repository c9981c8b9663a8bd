import { spawn } from 'node:child_process';
import { SeineError } from '../../src/base/errors/seine-error.ts';
import { inNetns } from '../machine/netns.ts';
import type { NetnsRef } from '../plan/names.ts';

interface PingCount {
  readonly sent: number;
  readonly lost: number;
}

/** Pings at a fixed rate until stopped, for a few minutes at most. The kernel answers, so no event loop can lose a packet. */
export function pingStream(from: NetnsRef, to: string, hertz: number, stop: AbortSignal): Promise<PingCount> {
  const inside = inNetns(from, 'ping', ['-n', '-i', String(1 / hertz), to]);
  const child = spawn(inside.command, inside.args, { stdio: ['ignore', 'pipe', 'ignore'], env: { ...process.env, LC_ALL: 'C' } });
  stop.addEventListener('abort', () => child.kill('SIGINT'), { once: true });
  let said = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (said += text));
  return new Promise((resolve, reject) => {
    child.once('error', (cause) => reject(new SeineError('REFUSED', 'run ping', { cause })));
    child.once('close', () => resolve(countReplies(said)));
  });
}

/**
 * Parses ping's line for each reply. The summary would count the packet that was in flight when ping was stopped as lost; here, the sent
 * packets end with the last one that was answered.
 */
export function countReplies(said: string): PingCount {
  const answered = new Set(Array.from(said.matchAll(/^\d+ bytes from .*icmp_seq=(\d+) /gm), ([, sequence]) => Number(sequence)));
  const sent = Math.max(0, ...answered);
  return { sent, lost: sent - answered.size };
}
