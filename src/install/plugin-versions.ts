import { spawnSync } from 'node:child_process';
import { z } from 'zod';
import { SeineError } from '../base/errors/seine-error.ts';

const patienceMs = 10_000;
const answer = z.object({ supportedVersions: z.array(z.string()).min(1) });

/**
 * Queries the CNI versions that a plugin supports (command VERSION).
 *
 * @throws SeineError `REFUSED` if it cannot be executed or its answer is invalid
 */
export function pluginVersions(path: string): readonly string[] {
  const options = { env: { CNI_COMMAND: 'VERSION' }, input: '{"cniVersion":"1.0.0"}', timeout: patienceMs, encoding: 'utf8' } as const;
  // Not `error`: a plugin need not read its input, and EPIPE is then not a failure.
  const { status, stdout, error } = spawnSync(path, [], options);
  try {
    if (status === 0) return answer.parse(JSON.parse(stdout)).supportedVersions;
  } catch {
    // Treated like an empty answer.
  }
  const message = `${path} does not answer VERSION: it cannot be executed here, or is damaged`;
  throw new SeineError('REFUSED', message, error === undefined ? {} : { cause: error });
}
