import { SeineError } from '../errors/seine-error.ts';
import type { SwitchDatabase } from './switch-database.ts';

export interface Replug {
  readonly database: SwitchDatabase;
  readonly bridge: string;
  /** Name of the OVSDB lock without which nothing is written. */
  readonly lock: string;
}

/**
 * Takes a port off the bridge and returns once ovs-vswitchd has let go of its interface; whoever wants the port puts it back.
 *
 * ovs-vswitchd does not open an interface anew that was deleted and made again under its name, and does not notice a port that was
 * away for a moment between two looks at its database; the number that it copies to `cur_cfg` says that it has looked.
 *
 * @throws SeineError `UNAVAILABLE`, `REFUSED`, `CANCELLED` if `signal` comes first
 */
export async function unplugPort({ database, bridge, lock }: Replug, name: string, signal: AbortSignal): Promise<void> {
  const { Port, Open_vSwitch: root } = database.tables;
  const port = Port.find('name', name);
  const [before] = root.rows();
  if (!before) throw new SeineError('UNAVAILABLE', 'the switch database is empty');
  await database.transact((tx) => {
    tx.assertLock(lock);
    if (port) tx.mutate('Bridge', [['name', '==', bridge]], ['ports', 'delete', [port._uuid]]);
    tx.mutate('Open_vSwitch', [], ['next_cfg', '+=', 1n]);
  }, signal);
  await root.when(before._uuid, (row) => (row && row.cur_cfg > before.next_cfg ? true : undefined), signal);
}
