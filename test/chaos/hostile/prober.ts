#!/usr/bin/env node
/**
 * Runs in a network namespace: probes each target of a line of stdin (JSON of `ProbeQuestion`), and answers with a line, JSON of
 * `ProbeAnswer`. It is a separate process for each place, so that a step starts none.
 */
import { createSocket } from 'node:dgram';
import { connect, isIPv6 } from 'node:net';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ProbeAnswer, ProbeOutcome, ProbeQuestion, ProbeTarget } from './probes.ts';

const pauseMs = 50;
const now = (): number => Number(process.hrtime.bigint() / 1_000_000n);

/** Name of the responder, from the line of JSON that responders of the lab send. */
function nameIn(text: string): string {
  try {
    return String((JSON.parse(text) as { readonly pod?: unknown }).pod ?? text);
  } catch {
    return text.slice(0, 100);
  }
}

/** @returns name of the responder; undefined without an answer */
function overTcp({ address, port }: ProbeTarget, withinMs: number): Promise<string | undefined> {
  return new Promise((resolve) => {
    let text = '';
    const socket = connect({ port, host: address, family: isIPv6(address) ? 6 : 4 }, () => socket.write('who\n'));
    const end = (by: string | undefined): void => {
      clearTimeout(timer);
      // Leaves no connection in TIME_WAIT.
      socket.resetAndDestroy();
      resolve(by);
    };
    const timer = setTimeout(() => end(undefined), withinMs);
    socket.on('data', (chunk: Buffer) => {
      text += chunk.toString('utf8');
      if (text.includes('\n')) end(nameIn(text));
    });
    socket.on('error', () => end(undefined));
    socket.on('end', () => end(text === '' ? undefined : nameIn(text)));
  });
}

function overUdp({ address, port }: ProbeTarget, withinMs: number): Promise<string | undefined> {
  return new Promise((resolve) => {
    const socket = createSocket(isIPv6(address) ? 'udp6' : 'udp4');
    let isOpen = true;
    const end = (by: string | undefined): void => {
      clearTimeout(timer);
      if (isOpen) socket.close();
      isOpen = false;
      resolve(by);
    };
    const timer = setTimeout(() => end(undefined), withinMs);
    socket.on('message', (message) => end(nameIn(message.toString('utf8').trim())));
    socket.on('error', () => end(undefined));
    socket.send('who\n', port, address, (error) => {
      if (error !== null && error !== undefined) end(undefined);
    });
  });
}

/** Retries until there is an answer, or the time is over. */
async function probe(target: ProbeTarget): Promise<ProbeOutcome> {
  const startedMs = now();
  for (;;) {
    const leftMs = target.withinMs - (now() - startedMs);
    const tryMs = Math.max(1, Math.min(target.tryMs, leftMs));
    const by = await (target.protocol === 'tcp' ? overTcp(target, tryMs) : overUdp(target, tryMs));
    const tookMs = now() - startedMs;
    if (by !== undefined) return { by, tookMs };
    if (tookMs >= target.withinMs) return { tookMs };
    await sleep(pauseMs);
  }
}

async function answer(line: string): Promise<void> {
  const { targets } = JSON.parse(line) as ProbeQuestion;
  const said: ProbeAnswer = { outcomes: await Promise.all(targets.map(probe)) };
  process.stdout.write(`${JSON.stringify(said)}\n`);
}

for await (const line of createInterface({ input: process.stdin })) await answer(line);
