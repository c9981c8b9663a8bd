import packageJson from '../../package.json' with { type: 'json' };
import type { SwitchDatabase } from '../datapath/switch-database.ts';

export const seineVersion: string = packageJson.version;

/** What ovs-vswitchd wrote of itself into the database; undefined before it has. */
export function ovsVersion(database: SwitchDatabase): string | undefined {
  const [row] = database.tables.Open_vSwitch.rows();
  return row?.ovs_version;
}
