import * as z from 'zod';
import { SeineError } from '../../base/errors/seine-error.ts';

/** Subprotocols of exec, newest first; the server chooses the first that it knows. In both, the first byte of a message names a channel. */
export const execProtocols = ['v5.channel.k8s.io', 'v4.channel.k8s.io'];
export const execChannels = { stdin: 0, stdout: 1, stderr: 2, status: 3 } as const;

/** Last message of the error channel: a `metav1.Status`, with the exit code among its causes if the program ran. */
const statusSchema = z.object({
  status: z.string(),
  message: z.string().catch(''),
  details: z
    .object({ causes: z.array(z.object({ reason: z.string().catch(''), message: z.string().catch('') })).catch([]) })
    .catch({ causes: [] }),
});

const MESSAGE_CHARACTERS_MAX = 300;

/**
 * Returns the exit code of a program.
 *
 * @param text content of the error channel
 * @throws SeineError `UNAVAILABLE` if the end of the program was not reported, `REFUSED` if it did not run
 */
export function exitCodeIn(text: string): number {
  const found = statusSchema.safeParse(parsed(text));
  if (!found.success) throw new SeineError('UNAVAILABLE', 'the answer breaks off');
  const { status, message, details } = found.data;
  const exit = details.causes.find(({ reason }) => reason === 'ExitCode');
  const exitCode = status === 'Success' ? 0 : Number(exit?.message ?? Number.NaN);
  if (!Number.isInteger(exitCode)) throw new SeineError('REFUSED', `the program was not run: ${message.slice(0, MESSAGE_CHARACTERS_MAX)}`);
  return exitCode;
}

function parsed(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return undefined; // the answer was cut off before or within it
  }
}
