import { spawn } from 'node:child_process';
import { closeSync, existsSync, openSync, readdirSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { SeineError } from '../src/base/errors/seine-error.ts';
import { privateFolder } from '../src/base/files/private-folder.ts';
import { askControl, followControl } from './daemon/control.ts';
import type { LabStatus } from './daemon/status.ts';
import { livingProcess, readIfThere, writeFileWhole } from './machine/files.ts';
import { labProgram } from './machine/installation.ts';
import { endProcesses, labMark, type ProcessId, processOf } from './machine/process.ts';
import { labPaths } from './plan/names.ts';
import { type LabPlan, parsePlan } from './plan/plan.ts';

/** The end of the daemon is noticed immediately; this limit is for emulated hosts, where Node alone takes a minute to start beside other work. */
const daemonStartMs = 240_000;
const daemonGraceMs = 3_000;
const pollMs = 20;
const logTailBytes = 4_000;

const progressEvent = z.discriminatedUnion('is', [
  z.object({ is: z.literal('step'), text: z.string(), atMs: z.number() }),
  z.object({ is: z.literal('ready'), atMs: z.number() }),
  z.object({ is: z.literal('failed'), text: z.string(), atMs: z.number() }),
]);

interface UpOptions {
  readonly plan: LabPlan;
  /** Script that node runs as the agent; ours if absent. */
  readonly agent?: string | undefined;
  /** Called with each step, and the milliseconds since the daemon started. */
  readonly onStep: (text: string, atMs: number) => void;
  /** Called once the folder is known to be this lab's, before anything is started. */
  readonly onClaimed?: () => void;
}

/**
 * Starts a lab, or continues with an unfinished one, and resolves when every node takes pods.
 *
 * @returns duration in milliseconds
 * @throws SeineError `INVALID_INPUT` if the folder contains another lab or other files, `UNAVAILABLE` or `REFUSED` if it does not start
 */
export async function bringUp({ plan, agent, onStep, onClaimed }: UpOptions, signal: AbortSignal): Promise<number> {
  const paths = labPaths(plan.dir);
  claimFolder(plan);
  onClaimed?.();
  const daemon = (await usableDaemon(plan, signal)) ?? startDaemon(plan, agent);
  await answering(plan, daemon, signal);
  for await (const line of followControl(paths.control, '/progress', signal)) {
    const event = progressEvent.parse(line);
    if (event.is === 'ready') return event.atMs;
    if (event.is === 'failed') throw new SeineError('UNAVAILABLE', `the lab did not start: ${event.text}`);
    onStep(event.text, event.atMs);
  }
  throw new SeineError('UNAVAILABLE', `the daemon of the lab ended; see ${paths.daemonLog}`);
}

/** The plan of the lab in this folder. @throws SeineError `INVALID_INPUT` if there is none */
export function planOf(dir: string): LabPlan {
  const text = readIfThere(labPaths(dir).state);
  if (text === undefined) throw new SeineError('INVALID_INPUT', `there is no lab in ${dir}; create one with \`seine-lab up\``);
  return parsePlan(text);
}

/** @throws SeineError `UNAVAILABLE` if the lab's daemon does not run */
export async function askStatus(dir: string): Promise<LabStatus> {
  planOf(dir);
  return (await askControl(labPaths(dir).control, 'GET', '/status')) as LabStatus;
}

/** The running daemon, unless it failed to start the lab: then the next one continues. */
async function usableDaemon(plan: LabPlan, signal: AbortSignal): Promise<ProcessId | undefined> {
  const paths = labPaths(plan.dir);
  const daemon = livingProcess(paths.daemonPid);
  if (daemon === undefined) return undefined;
  await answering(plan, daemon, signal);
  if ((await askControl(paths.control, 'GET', '/outcome')) !== 'failed') return daemon;
  await endProcesses([daemon], daemonGraceMs);
  return undefined;
}

function claimFolder(plan: LabPlan): void {
  const paths = labPaths(plan.dir);
  const entries = existsSync(plan.dir) ? readdirSync(plan.dir).length : 0;
  if (entries > 0 && !existsSync(paths.state)) throw new SeineError('INVALID_INPUT', `${plan.dir} is not empty and holds no lab`);
  privateFolder(plan.dir);
  const before = readIfThere(paths.state);
  if (before !== undefined) {
    if (JSON.stringify(parsePlan(before)) === JSON.stringify(plan)) return;
    throw new SeineError('INVALID_INPUT', `${plan.dir} holds a lab with other options; remove it with \`seine-lab down\``);
  }
  writeFileWhole(paths.state, `${JSON.stringify(plan, null, 2)}\n`);
}

function startDaemon(plan: LabPlan, agent: string | undefined): ProcessId {
  const log = openSync(labPaths(plan.dir).daemonLog, 'a', 0o600);
  try {
    const args = [labProgram, 'daemon', '--dir', plan.dir, ...(agent === undefined ? [] : ['--agent', agent])];
    const env = { ...process.env, [labMark]: plan.id };
    const child = spawn(process.execPath, args, { stdio: ['ignore', log, log], detached: true, env });
    child.unref();
    const id = child.pid === undefined ? undefined : processOf(child.pid);
    if (id === undefined) throw new SeineError('REFUSED', 'the daemon of the lab does not start');
    return id;
  } finally {
    closeSync(log);
  }
}

async function answering(plan: LabPlan, daemon: ProcessId, signal: AbortSignal): Promise<void> {
  const paths = labPaths(plan.dir);
  const deadline = performance.now() + daemonStartMs;
  while (performance.now() < deadline) {
    if (processOf(daemon.pid)?.startTime !== daemon.startTime) break;
    try {
      for await (const _ of followControl(paths.control, '/progress', signal)) return;
    } catch {
      // Not yet listening.
      await sleep(pollMs, undefined, { signal });
    }
  }
  const said = (readIfThere(paths.daemonLog) ?? '').slice(-logTailBytes).trim();
  throw new SeineError('UNAVAILABLE', `the daemon of the lab does not answer; the end of ${paths.daemonLog}:\n${said}`);
}
