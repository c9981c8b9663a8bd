import { lstatSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { SeineError } from '../errors/seine-error.ts';

/**
 * Maximum length of a socket path (bytes): `sun_path` has 108 bytes with its zero (unix(7)). A longer path would be truncated, and the
 * socket created elsewhere.
 */
const pathBytesMax = 107;

/**
 * Clears the path for a socket: removes the socket of a dead process, and nothing else.
 *
 * @throws SeineError `REFUSED` if a process answers on it, `INVALID_INPUT` if the path cannot be that of a socket or is something else,
 * `UNAVAILABLE` if that cannot be determined
 */
export async function removeStaleSocket(path: string): Promise<void> {
  if (Buffer.byteLength(path) > pathBytesMax)
    throw new SeineError('INVALID_INPUT', `socket path ${path} is longer than ${pathBytesMax} bytes`);
  const present = lstatSync(path, { throwIfNoEntry: false });
  if (present && !present.isSocket()) throw new SeineError('INVALID_INPUT', `${path} exists and is not a socket`);
  const outcome = await new Promise<string>((resolve) => {
    const probe = connect(path);
    probe.once('connect', () => {
      probe.destroy();
      resolve('alive');
    });
    probe.once('error', (error) => resolve('code' in error ? String(error.code) : error.message));
  });
  if (outcome === 'alive') throw new SeineError('REFUSED', `another agent listens on ${path}`);
  if (outcome === 'ECONNREFUSED') rmSync(path, { force: true });
  else if (outcome !== 'ENOENT') throw new SeineError('UNAVAILABLE', `cannot tell whether an agent listens on ${path}: ${outcome}`);
}
