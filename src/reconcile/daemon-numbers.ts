import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { SeineError } from '../errors/seine-error.ts';
import { askOnce } from '../ovsdb/ask-once.ts';
import { defaultSessionLimits } from '../ovsdb/session.ts';

/** A command of ovs-vswitchd's control socket whose whole answer is one decimal number. */
export interface NumberCommand {
  readonly command: string;
  readonly arguments?: readonly string[];
}

/** Numbers are short; a longer answer is not the protocol expected here. */
const limits = { ...defaultSessionLimits, maxBytes: 64 * 1024 };

/**
 * Asks ovs-vswitchd for numbers that no other protocol has. Only commands that answer with a number and nothing else are allowed:
 * other answers are text for people, which is not parsed (ADR 16).
 *
 * Source: ovs-appctl(8), `lib/unixctl.c`'s protocol as it documents it: JSON-RPC 1.0 over `ovs-vswitchd.PID.ctl`, the result a string.
 *
 * @param runDir OVS_RUNDIR
 * @returns a number for each command, undefined where it is unknown or is answered with anything else
 * @throws SeineError `UNAVAILABLE` if the daemon does not answer; `CANCELLED`
 */
export async function askDaemonNumbers(
  runDir: string,
  commands: readonly NumberCommand[],
  signal: AbortSignal,
): Promise<readonly (number | undefined)[]> {
  const endpoint = `unix:${join(runDir, `ovs-vswitchd.${await daemonPid(runDir)}.ctl`)}`;
  return await askOnce(
    { endpoint, limits },
    (session) =>
      Promise.all(
        commands.map(({ command, arguments: words = [] }) =>
          session.call({ method: command, params: words }, numberIn, signal).catch((thrown: unknown) => {
            const error = SeineError.from(thrown, command);
            if (error.code !== 'REFUSED') throw error;
            return undefined; // another version has no such command, or no such counter
          }),
        ),
      ),
    signal,
  );
}

async function daemonPid(runDir: string): Promise<string> {
  const file = join(runDir, 'ovs-vswitchd.pid');
  const text = await readFile(file, 'utf8').catch((cause: unknown) => {
    throw new SeineError('UNAVAILABLE', `${file} cannot be read: ovs-vswitchd does not run`, { cause });
  });
  const pid = /^(\d{1,10})\n?$/.exec(text)?.[1];
  if (pid === undefined) throw new SeineError('UNAVAILABLE', `${file} holds no process number`);
  return pid;
}

/** @param result a string of JSON-RPC, or an object since Open vSwitch 3.6, which is not ours to read */
export function numberIn(result: unknown): number | undefined {
  const digits = typeof result === 'string' ? /^(\d{1,15})\n?$/.exec(result)?.[1] : undefined;
  return digits === undefined ? undefined : Number(digits);
}
