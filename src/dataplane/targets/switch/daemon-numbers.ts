import { SeineError } from '../../../base/errors/seine-error.ts';
import { withDaemonControl } from './daemon-control.ts';

/** Command of ovs-vswitchd's control socket whose whole answer is one decimal number. */
export interface NumberCommand {
  readonly command: string;
  readonly arguments?: readonly string[];
}

/**
 * Reads numbers from ovs-vswitchd that no other protocol provides. Only commands that answer with a single number are allowed: other
 * answers are text for people, which is not parsed (ADR 16).
 *
 * @param runDir OVS_RUNDIR
 * @returns a number for each command, undefined if the command is unknown or its answer is not a number
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

/** @param result a string of JSON-RPC, or since Open vSwitch 3.6 an object, which is ignored */
export function numberIn(result: unknown): number | undefined {
  const digits = typeof result === 'string' ? /^(\d{1,15})\n?$/.exec(result)?.[1] : undefined;
  return digits === undefined ? undefined : Number(digits);
}
