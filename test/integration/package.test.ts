import { execFile, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { cp, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { switchSchema } from '../support/open-vswitch.ts';

const run = promisify(execFile);
const root = join(import.meta.dirname, '..', '..');

const consumers = ['consumer.ts', 'ovsdb.ts', 'openflow.ts'];

/** Without skipLibCheck: the declarations of the package are checked as well. */
const compilerOptions = [
  '--strict',
  '--exactOptionalPropertyTypes',
  '--module',
  'nodenext',
  '--target',
  'es2023',
  '--types',
  'node',
  '--outDir',
  '.',
];

/** A folder in which the packed tarball is installed, like another project. */
let project: string;

beforeAll(async () => {
  project = await mkdtemp('/tmp/seine-package-');
  const installed = join(project, 'node_modules', 'seine');
  await mkdir(installed, { recursive: true });
  await run('npm', ['pack', '--ignore-scripts', '--pack-destination', project], { cwd: root });
  await run('sh', ['-c', 'tar -xzf "$1"/*.tgz -C "$2" --strip-components=1', 'sh', project, installed]);
  for (const name of ['@types', 'undici-types']) await symlink(join(root, 'node_modules', name), join(project, 'node_modules', name));
  for (const file of consumers) await cp(join(root, 'test', 'fixtures', 'package-consumer', file), join(project, file));
  await writeFile(join(project, 'package.json'), JSON.stringify({ type: 'module' }));
});

afterAll(async () => {
  await rm(project, { recursive: true, force: true });
});

it('contains no sources and no tests', async () => {
  const { stdout } = await run('find', [join(project, 'node_modules', 'seine'), '-name', '*.ts', '-not', '-name', '*.d.ts']);
  expect(stdout).toBe('');
});

it('has types that a strict project can compile against', async () => {
  await run(join(root, 'node_modules', '.bin', 'tsc'), [...compilerOptions, ...consumers], { cwd: project });
});

it('has a working OVSDB client and OpenFlow codec', async () => {
  const socket = join(project, 'db.sock');
  await run('ovsdb-tool', ['create', join(project, 'conf.db'), switchSchema]);
  const server = spawn('ovsdb-server', [join(project, 'conf.db'), `--remote=punix:${socket}`, '--no-chdir'], {
    env: { ...process.env, OVS_RUNDIR: project },
    stdio: 'ignore',
  });
  try {
    const { stdout } = await run(process.execPath, ['consumer.js', `unix:${socket}`], { cwd: project, timeout: 20_000 });
    const { name, flowMod } = JSON.parse(stdout) as { name: string; flowMod: string };
    expect(name).toBe('br-consumer');
    const { stdout: text } = await run('ovs-ofctl', ['ofp-print', flowMod]);
    expect(text).toContain('ADD table:3 priority=200,ip,nw_src=10.0.0.0/8 cookie:0x2a actions=goto_table:20');
  } finally {
    server.kill();
  }
});

it('has all of the OVSDB client', async () => {
  const socket = join(project, 'db2.sock');
  await run('ovsdb-tool', ['create', join(project, 'conf2.db'), switchSchema]);
  const options = [`--remote=punix:${socket}`, `--unixctl=${join(project, 'ctl2')}`, '--no-chdir'];
  const server = spawn('ovsdb-server', [join(project, 'conf2.db'), ...options], { stdio: 'ignore' });
  try {
    await expect.poll(() => existsSync(socket)).toBe(true);
    await run('ovs-vsctl', [`--db=unix:${socket}`, '--no-wait', 'init']);
    const { stdout } = await run(process.execPath, ['ovsdb.js', `unix:${socket}`], { cwd: project, timeout: 20_000 });
    expect(JSON.parse(stdout)).toEqual({
      seen: ['one', 'two'],
      bridges: 2,
      filtered: 2,
      everything: 4,
      refused: '[INVALID_INPUT] Port.tag: 5000 is not within 0 to 4095',
      tables: expect.any(Number),
      generated: true,
      parsed: '_Server',
      limit: '2 is not within 0 to 1',
    });
  } finally {
    server.kill();
  }
});

it('has all of OpenFlow 1.3 and 1.5, from text to bytes and back', async () => {
  const { stdout } = await run(process.execPath, ['openflow.js'], { cwd: project, timeout: 20_000 });
  const { text, json, hex, rows, fields } = JSON.parse(stdout) as {
    text: string[];
    json: { name: string; version: string }[];
    hex: string[];
    rows: boolean;
    fields: number;
  };
  expect(rows && fields > 150).toBe(true);
  expect(json.map(({ name, version }) => `${version} ${name}`)).toContain('1.3 OFPT_GROUP_MOD');
  for (const [index, each] of hex.entries()) {
    const { stdout: theirs } = await run('ovs-ofctl', ['--no-names', 'ofp-print', each]);
    expect(theirs.replace(/\s+/g, ' ')).toContain(text[index]?.replace(/ data_len.*/, ''));
  }
});

it('has libraries that are separate packages, and whose errors are one class', async () => {
  const libraries = join(project, 'libraries');
  await mkdir(libraries);
  for (const library of ['ovsdb', 'openflow'])
    await run('npm', ['pack', '--ignore-scripts', '--pack-destination', libraries], { cwd: join(root, 'dist', 'packages', library) });
  await writeFile(join(libraries, 'package.json'), JSON.stringify({ type: 'module', private: true }));
  const tarballs = (await readdir(libraries)).filter((name) => name.endsWith('.tgz')).map((name) => `.//${name}`);
  expect(tarballs).toHaveLength(2);
  await run('npm', ['install', '--offline', '--ignore-scripts', ...tarballs], { cwd: libraries });
  expect((await readdir(join(libraries, 'node_modules'))).filter((name) => !name.startsWith('.')).toSorted()).toEqual([
    'seine-openflow',
    'seine-ovsdb',
  ]);
  await cp(join(root, 'test', 'fixtures', 'package-consumer', 'libraries.ts'), join(libraries, 'libraries.ts'));
  for (const library of ['ovsdb', 'openflow']) await writeFile(join(libraries, `${library}-page.ts`), await exampleOf(library));
  await run(join(root, 'node_modules', '.bin', 'tsc'), [...compilerOptions, 'libraries.ts', 'ovsdb-page.ts', 'openflow-page.ts'], {
    cwd: libraries,
  });
  const { stdout } = await run(process.execPath, ['libraries.js'], { cwd: libraries, timeout: 20_000 });
  expect(JSON.parse(stdout)).toEqual({
    match: true,
    objection: '2 is not within 0 to 1',
    errors: ['PROTOCOL', 'INVALID_INPUT'],
    plain: false,
  });
});

it.each(['seine-agent', 'seinectl', 'seine-lab'])('has one class of errors in %s', async (program) => {
  const bundle = await readFile(join(project, 'node_modules', 'seine', 'dist', `${program}.mjs`), 'utf8');
  expect(bundle.match(/Symbol\.for\(["']seine\.SeineError["']\)/g)).toHaveLength(1);
});

it('has commands that start', async () => {
  const installed = join(project, 'node_modules', 'seine');
  await symlink(join(root, 'node_modules', 'koffi'), join(project, 'node_modules', 'koffi'));
  await symlink(join(root, 'node_modules', '@koromix'), join(project, 'node_modules', '@koromix'));
  const { bin } = JSON.parse(await readFile(join(installed, 'package.json'), 'utf8')) as { bin: Readonly<Record<string, string>> };
  expect(Object.keys(bin).toSorted()).toEqual(['seine-agent', 'seine-lab', 'seinectl']);
  for (const launcher of Object.values(bin)) {
    const { stdout } = await run(process.execPath, [join(installed, launcher), '--help']);
    expect(stdout).toMatch(/^Usage: /);
  }
});

/** The first example of a library's page: from its import to the end of the block. */
async function exampleOf(library: string): Promise<string> {
  const page = await readFile(join(root, 'dist', 'packages', library, 'README.md'), 'utf8');
  const [, example = ''] = /^( {4}import [\s\S]*?)^\S/m.exec(page) ?? [];
  expect(example).toContain(`from 'seine-${library}'`);
  return example;
}
