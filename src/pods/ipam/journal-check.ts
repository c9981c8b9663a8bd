import { constants } from 'node:fs';
import { access, statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { HealthCheck } from '../../api/health/health-check.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { Ipam } from './ipam.ts';

const EVERY_MS = 15_000;
/** Free space that a rewrite may need (bytes); a journal has a few hundred kilobytes. */
const ROOM_BYTES = 1024 * 1024;

/** Check whether the next agent would find all leases: the journal is ours, matches the state in memory, and can be written. */
export function journalCheck(ipam: Pick<Ipam, 'checkJournal'>, path: string): HealthCheck {
  return {
    name: 'journal',
    everyMs: EVERY_MS,
    run: async () => {
      const fault = await ipam.checkJournal();
      const obstacle = await obstacleTo(path);
      return {
        problems: obstacle === undefined ? [] : [{ kind: 'journal', about: path, message: `address allocation will fail: ${obstacle}` }],
        repaired: fault === undefined ? [] : [`${path} was written again: ${fault}`],
      };
    },
  };
}

/** Returns an obstacle to the next write; undefined if none is known. */
async function obstacleTo(path: string): Promise<string | undefined> {
  try {
    await access(path, constants.W_OK);
    const { bavail, bsize } = await statfs(dirname(path));
    return bavail * bsize < ROOM_BYTES ? `there is no room for ${path}` : undefined;
  } catch (thrown) {
    return `${path} cannot be written: ${SeineError.from(thrown, 'the journal').rawMessage}`;
  }
}
