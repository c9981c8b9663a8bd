/**
 * Rewrites the tables of src/ovsdb/schema: Open vSwitch's from the installed schema, those of the database in which a server describes
 * itself from a server's answer to `get_schema`.
 *
 *     node build/generate-ovsdb-tables.ts [SCHEMA]
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { generateTables } from '../src/ovsdb/schema/generate.ts';

const installed = process.argv[2] ?? '/usr/share/openvswitch/vswitch.ovsschema';
const recorded = new URL('../test/fixtures/ovsdb-server-schema.json', import.meta.url);

write('open-vswitch.ts', installed, 'openVswitch');
write('server.ts', recorded, 'serverDatabase');

function write(file: string, schema: string | URL, exportName: string): void {
  const target = new URL(`../src/ovsdb/schema/${file}`, import.meta.url);
  writeFileSync(target, generateTables(JSON.parse(readFileSync(schema, 'utf8')), exportName));
}
