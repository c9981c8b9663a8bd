import { SeineError } from '../../../base/errors/seine-error.ts';
import type { SwitchDatabase } from './switch-database.ts';

interface Replug {
  readonly database: SwitchDatabase;
  readonly bridge: string;
  /** Name of the OVSDB lock required for writes. */
  readonly lock: string;
}

/**
 * Removes a port from the bridge and returns once ovs-vswitchd has closed its interface; the port's owner adds it again.
 *
 * ovs-vswitchd does not reopen an interface that was deleted and created again under its name, and does not notice a port that was absent
 * only between two of its reads of OVSDB. The number that it copies to `cur_cfg` shows that it has read.
 *
 * @throws SeineError `UNAVAILABLE`, `REFUSED`, `CANCELLED` if `signal` comes first
 */
export async function unplugPort({ database, bridge, lock }: Replug, name: string, signal: AbortSignal): Promise<void> {
  const { Port, Open_vSwitch: root } = database.tables;
  const port = Port.find('name', name);
  const [before] = root.rows();
  if (!before) throw new SeineError('UNAVAILABLE', 'OVSDB is empty');
  await database.transact((tx) => {
    tx.assertLock(lock);
    if (port) tx.mutate('Bridge', [['name', '==', bridge]], ['ports', 'delete', [port._uuid]]);
    tx.mutate('Open_vSwitch', [], ['next_cfg', '+=', 1n]);
  }, signal);
  await root.when(before._uuid, (row) => (row && row.cur_cfg > before.next_cfg ? true : undefined), signal);
}
