import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { SeineError } from '../../../base/errors/seine-error.ts';
import { defaultSessionLimits, type JsonRpcSession } from '../../../ovsdb/session.ts';
import { askOnce } from '../../../ovsdb/shared-request.ts';

/** Session limits. All answers used are short; a longer one is not of the expected protocol. */
const limits = { ...defaultSessionLimits, maxBytes: 64 * 1024 };

/**
 * Opens ovs-vswitchd's control socket while `ask` runs.
 *
 * Source: ovs-appctl(8), and the protocol as documented in `lib/unixctl.c`: JSON-RPC 1.0 over `ovs-vswitchd.PID.ctl`, the result a string.
 *
 * @param runDir OVS_RUNDIR
 * @throws SeineError `UNAVAILABLE` if the daemon does not answer; `CANCELLED`; like `ask`
 */
export async function withDaemonControl<T>(runDir: string, ask: (session: JsonRpcSession) => Promise<T>, signal: AbortSignal): Promise<T> {
  const endpoint = `unix:${join(runDir, `ovs-vswitchd.${await daemonPid(runDir)}.ctl`)}`;
  return await askOnce({ endpoint, limits }, ask, signal);
}

async function daemonPid(runDir: string): Promise<string> {
  const file = join(runDir, 'ovs-vswitchd.pid');
  const text = await readFile(file, 'utf8').catch((cause: unknown) => {
    throw new SeineError('UNAVAILABLE', `${file} cannot be read: ovs-vswitchd does not run`, { cause });
  });
  const pid = /^(\d{1,10})\n?$/.exec(text)?.[1];
  if (pid === undefined) throw new SeineError('UNAVAILABLE', `${file} does not contain a process number`);
  return pid;
}
