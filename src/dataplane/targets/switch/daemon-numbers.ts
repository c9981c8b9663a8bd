import { SeineError } from '../../../base/errors/seine-error.ts';
import { withDaemonControl } from './daemon-control.ts';

/** A command of ovs-vswitchd's control socket whose whole answer is one decimal number. */
export interface NumberCommand {
  readonly command: string;
  readonly arguments?: readonly string[];
}

/**
 * Asks ovs-vswitchd for numbers that no other protocol has. Only commands that answer with a number and nothing else are allowed:
 * other answers are text for people, which is not parsed (ADR 16).
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
  return await withDaemonControl(
    runDir,
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

/** @param result a string of JSON-RPC, or an object since Open vSwitch 3.6, which is not ours to read */
export function numberIn(result: unknown): number | undefined {
  const digits = typeof result === 'string' ? /^(\d{1,15})\n?$/.exec(result)?.[1] : undefined;
  return digits === undefined ? undefined : Number(digits);
}
