import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest';
import { until } from '../support/converge-lab.ts';
import { switchSchema } from '../support/open-vswitch.ts';
import { generator } from '../support/random.ts';
import { StartedOvs } from '../support/started-ovs.ts';

/*
 * The script that starts Open vSwitch in its container, with the host's own programs. Schemas stand in for other versions:
 * `needs-conversion` and `convert` read nothing else.
 */

const patienceMs = 20_000;
const seed = Number(process.env['SEINE_TEST_SEED'] ?? Date.now() % 1_000_000);
const kills = 12;

interface Schema {
  version: string;
  cksum: string;
  readonly tables: Record<string, { readonly columns: Record<string, unknown> }>;
}

const older = schemaFrom(() => undefined);
/** Like the difference from 3.1 to 3.5: a new column, and a column that accepts more. */
const newer = schemaFrom((schema) => {
  Object.assign(schema, { version: '8.99.0', cksum: '99 26720' });
  const prefixes = { type: { key: 'string', min: 0, max: 9 } };
  Object.assign(schema.tables['Flow_Table']?.columns ?? {}, { prefixes });
  Object.assign(schema.tables['Port']?.columns ?? {}, { novelty: { type: { key: 'string', min: 0, max: 1 } } });
});

const netns = `seine-t-${randomBytes(3).toString('hex')}`;
let dir: string;
let runDir: string;
let started: StartedOvs | undefined;

beforeAll(() => void execFileSync('ip', ['netns', 'add', netns]));
afterAll(() => void execFileSync('ip', ['netns', 'del', netns]));
beforeEach(() => {
  dir = mkdtempSync('/var/tmp/seine-ovs-start-');
  runDir = mkdtempSync('/run/seine-t-');
});
afterEach(async () => {
  await started?.kill();
  for (const folder of [dir, runDir]) rmSync(folder, { recursive: true, force: true });
});

function schemaFrom(change: (schema: Schema) => void): Schema {
  const schema = JSON.parse(readFileSync(switchSchema, 'utf8')) as Schema;
  change(schema);
  return schema;
}

function another(version: string): Schema {
  return schemaFrom((schema) => void Object.assign(schema, { version }));
}

function start(schema: Schema, dataDir = dir): StartedOvs {
  const share = join(runDir, 'share');
  mkdirSync(share, { recursive: true });
  writeFileSync(join(share, 'vswitch.ovsschema'), JSON.stringify(schema));
  return (started = StartedOvs.start({ netns: `/run/netns/${netns}`, runDir, dataDir, env: { OVS_PKGDATADIR: share } }));
}

async function startedWith(schema: Schema, dataDir?: string): Promise<StartedOvs> {
  const ovs = start(schema, dataDir);
  await until(
    () => ovs.isAlive(),
    patienceMs,
    () => `Open vSwitch does not answer: ${ovs.output.join('; ')}`,
  );
  return ovs;
}

function vsctl(...args: readonly string[]): string {
  return execFileSync('ovs-vsctl', [`--db=unix:${join(runDir, 'db.sock')}`, '--no-wait', '--timeout=10', ...args], {
    encoding: 'utf8',
  }).trim();
}

/** Transactions that the host's own tools do not support. */
function transact(...operations: readonly object[]): void {
  const args = ['transact', `unix:${join(runDir, 'db.sock')}`, JSON.stringify(['Open_vSwitch', ...operations])];
  expect(execFileSync('ovsdb-client', args, { encoding: 'utf8' })).not.toContain('error');
}

/** Adds more prefixes than the older version accepts. */
function addWhatIsRefused(): void {
  const prefixes = ['set', ['ip_src', 'ip_dst', 'ipv6_src', 'ipv6_dst']];
  transact(
    { op: 'insert', table: 'Flow_Table', 'uuid-name': 'new', row: { prefixes } },
    { op: 'update', table: 'Bridge', where: [['name', '==', 'br']], row: { flow_tables: ['map', [[0, ['named-uuid', 'new']]]] } },
  );
}

const database = (folder = dir): string => join(folder, 'conf.db');
const keptAs = ({ version, cksum }: Schema, folder = dir): string => `${database(folder)}.schema-${version}-${cksum.split(' ')[0]}`;
const copies = (): readonly string[] => readdirSync(dir).filter((name) => name.startsWith('conf.db.schema-'));
const modeOf = (path: string): string => (statSync(path).mode & 0o7777).toString(8);
const versionOf = (path: string): string => execFileSync('ovsdb-tool', ['db-version', path], { encoding: 'utf8' }).trim();
const addPod = (name: string): string =>
  vsctl('--may-exist', 'add-br', 'br', '--', 'add-port', 'br', name, '--', 'set', 'port', name, `external_ids:container-id=${name}`);
const hasPod = (name: string): string => vsctl('--if-exists', 'get', 'port', name, 'external_ids:container-id').replaceAll('"', '');

/** No conversion is in progress, and no remains of one exist. */
function expectNoDrafts(): void {
  expect(readdirSync(dir).filter((name) => !/^(?:conf\.db(?:\.schema-[\w.-]+)?|\..*lock~|system-id\.conf)$/.test(name))).toEqual([]);
  expect(readdirSync(runDir).filter((name) => name.startsWith('conf.db'))).toEqual([]);
}

it('keeps a copy of the database, complete and for root alone, before it converts it', async () => {
  const before = await startedWith(older);
  addPod('first');
  await before.stop();
  const bytes = readFileSync(database());
  await startedWith(newer);
  expect([versionOf(database()), hasPod('first')]).toEqual([newer.version, 'first']);
  expect(readFileSync(keptAs(older)).equals(bytes)).toBe(true);
  expect([database(), keptAs(older)].map(modeOf)).toEqual(['600', '600']);
  expectNoDrafts();
});

it('goes back with the ports of later pods', async () => {
  for (const [schema, pod] of [
    [older, 'first'],
    [newer, 'second'],
  ] as const) {
    const ovs = await startedWith(schema);
    addPod(pod);
    if (schema === newer) transact({ op: 'update', table: 'Port', where: [['name', '==', 'second']], row: { novelty: 'new' } });
    await ovs.stop();
  }
  await startedWith(older);
  expect([versionOf(database()), hasPod('first'), hasPod('second')]).toEqual([older.version, 'first', 'second']);
  expect(copies()).toHaveLength(2);
  expectNoDrafts();
});

it('uses the copy if the older version rejects content of the newer one, and keeps that', async () => {
  const before = await startedWith(older);
  addPod('first');
  await before.stop();
  const since = await startedWith(newer);
  addPod('second');
  addWhatIsRefused();
  await since.stop();
  const bytes = readFileSync(database());
  const back = await startedWith(older);
  expect([versionOf(database()), hasPod('first'), hasPod('second')]).toEqual([older.version, 'first', '']);
  expect(readFileSync(keptAs(newer)).equals(bytes)).toBe(true);
  expect(back.output).toContain(`ovs-start: what was kept as ${keptAs(older)} is taken`);
  expectNoDrafts();
});

it('creates a new one if nothing of that version was kept', async () => {
  const ovs = await startedWith(newer);
  addPod('first');
  addWhatIsRefused();
  await ovs.stop();
  await startedWith(older);
  expect([versionOf(database()), vsctl('list-br')]).toEqual([older.version, '']);
  expect(versionOf(keptAs(newer))).toBe(newer.version);
});

it('keeps an unreadable database, and starts with the copy of its version', async () => {
  const before = await startedWith(older);
  addPod('first');
  await before.stop();
  for (const schema of [newer, older]) await (await startedWith(schema)).stop();
  writeFileSync(database(), 'no database');
  await startedWith(older);
  expect([hasPod('first'), readFileSync(`${database()}.damaged`, 'utf8')]).toEqual(['first', 'no database']);
});

it('keeps no more than three copies, the newest', async () => {
  const versions = ['8.90.0', '8.91.0', '8.92.0', '8.93.0', '8.94.0'].map(another);
  for (const schema of versions) await (await startedWith(schema)).stop();
  expect(
    copies()
      .map((name) => join(dir, name))
      .toSorted(),
  ).toEqual(versions.slice(1, 4).map((schema) => keptAs(schema)));
});

it('converts nothing if the disk has no room for a copy', async () => {
  const small = join(dir, 'small');
  mkdirSync(small);
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'none', small]);
  try {
    await (await startedWith(older, small)).stop();
    writeFileSync(join(small, 'filler'), Buffer.alloc(freeBytes(small) - 4096));
    const bytes = readFileSync(database(small));
    const ovs = start(newer, small);
    expect(await ovs.ended()).toBe(1);
    expect(ovs.output).toContain(`ovs-start: no copy of ${database(small)} can be kept, so it is not converted`);
    expect(readFileSync(database(small)).equals(bytes)).toBe(true);
    expect(readdirSync(small).filter((name) => name.includes('schema-'))).toEqual([]);
    rmSync(join(small, 'filler'));
    await (await startedWith(newer, small)).stop();
    expect(versionOf(keptAs(older, small))).toBe(older.version);
  } finally {
    await started?.kill();
    execFileSync('umount', [small]);
  }
});

function freeBytes(folder: string): number {
  return Number(execFileSync('stat', ['-f', '-c', '%a', folder], { encoding: 'utf8' })) * 4096;
}

it('converts nothing while a server that hangs has the database', async () => {
  const ovs = await startedWith(older);
  const pid = Number(readFileSync(join(runDir, 'ovsdb-server.pid'), 'utf8'));
  process.kill(pid, 'SIGSTOP');
  await expect.poll(() => readFileSync(`/proc/${pid}/stat`, 'utf8')).toMatch(/\) T /);
  const bytes = readFileSync(database()); // it writes no more
  const second = start(newer);
  expect(await second.ended()).toBe(1);
  expect([copies(), readFileSync(database()).equals(bytes)]).toEqual([[], true]);
  process.kill(pid, 'SIGKILL');
  await ovs.kill();
});

it(`has a complete database and complete copies whenever it is killed (seed ${seed})`, async () => {
  const random = generator(seed);
  const before = await startedWith(older);
  addPod('first');
  await before.stop();
  const schemas = [newer, older];
  for (let kill = 0; kill < kills; kill++) {
    const ovs = start(schemas[kill % 2] ?? older);
    await sleep(random() * 250);
    await ovs.kill();
    for (const path of [database(), ...copies().map((name) => join(dir, name))])
      expect(execFileSync('ovsdb-tool', ['query', path, podQuery], { encoding: 'utf8' }), path).toContain('"first"');
  }
  await startedWith(older);
  expect([versionOf(database()), hasPod('first')]).toEqual([older.version, 'first']);
});

const podQuery = JSON.stringify(['Open_vSwitch', { op: 'select', table: 'Port', where: [['name', '==', 'first']], columns: ['name'] }]);
