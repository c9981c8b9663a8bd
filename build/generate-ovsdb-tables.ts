/**
 * Writes src/ovsdb/schema/open-vswitch.ts anew from the schema of the Open vSwitch that is installed here.
 *
 *     node build/generate-ovsdb-tables.ts [SCHEMA]
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { generateTables } from '../src/ovsdb/schema/generate.ts';

const schemaPath = process.argv[2] ?? '/usr/share/openvswitch/vswitch.ovsschema';
const target = new URL('../src/ovsdb/schema/open-vswitch.ts', import.meta.url);
writeFileSync(target, generateTables(JSON.parse(readFileSync(schemaPath, 'utf8')), 'openVswitch'));
