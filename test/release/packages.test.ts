import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { packageRoot } from '../../lab/machine/installation.ts';
import { run, runAnyway } from '../../lab/machine/process.ts';
import { FakeFleet, fakeStatus } from '../support/fake-fleet.ts';

/*
 * The packages for npm as a release packs them, installed by npm without a network: `seinectl` for every user of the host, the libraries in a
 * project that compiles and runs. There is no macOS here: the process says that it runs on macOS, and cannot load a native module.
 */

const folder = mkdtempSync(join(tmpdir(), 'seine-packages-'));
const files = join(folder, 'out', 'files');
const prefix = join(folder, 'prefix');
const signal = AbortSignal.timeout(300_000);
const { version } = JSON.parse(readFileSync(join(packageRoot, 'package.json'), 'utf8')) as { readonly version: string };

/** A port without a listener, so that packing contacts no registry. */
const nowhere = 'http://127.0.0.1:9/';
const offline = ['--offline', '--ignore-scripts', '--no-audit', '--no-fund', '--registry', nowhere];

const preload = join(folder, 'macos.cjs');
const preloadText = `
Object.defineProperty(process, 'platform', { value: 'darwin' });
process.dlopen = (module, path) => { throw new Error('native module loaded: ' + path); };
`;

beforeAll(async () => {
  const script = join(packageRoot, 'build', 'release', 'packages.ts');
  const options = ['--out', join(folder, 'out'), '--scope', '@example', '--npm-registry', nowhere];
  const env = { npm_config_fetch_retries: '0' };
  await run(process.execPath, [script, ...options, '--repository', 'https://git.example/seine'], { env }, signal);
  await run('npm', ['install', '--global', '--prefix', prefix, ...offline, archive('seinectl')], {}, signal);
  writeFileSync(preload, preloadText);
});
afterAll(() => rmSync(folder, { recursive: true }));

function archive(name: string): string {
  const found = readdirSync(files).find((file) => file === `example-${name}-${version}.tgz`);
  if (found === undefined) throw new Error(`no package of ${name} among ${readdirSync(files).join(' ')}`);
  return join(files, found);
}

/** Runs the installed command as on macOS. */
async function seinectl(...args: readonly string[]) {
  const options = { env: { NODE_OPTIONS: `--no-addons --require ${preload}`, PATH: `${prefix}/bin:${process.env['PATH']}` } };
  return await runAnyway('seinectl', args, options, signal);
}

it('packs under the scope, with the repository, and with nothing that keeps npm from publishing', async () => {
  for (const name of ['seine-ovsdb', 'seine-openflow', 'seinectl']) {
    const text = await run('tar', ['-xzOf', archive(name), 'package/package.json'], {}, signal);
    const manifest = JSON.parse(text) as Record<string, unknown>;
    expect(manifest).toMatchObject({ name: `@example/${name}`, version, license: 'Apache-2.0' });
    expect(manifest).toMatchObject({ repository: { type: 'git', url: 'https://git.example/seine' } });
    expect(manifest).not.toHaveProperty('private');
    expect(manifest).not.toHaveProperty('dependencies');
  }
});

it('has licenses of the packages inside of seinectl, and neither a native module nor a script of npm', async () => {
  const listed = await run('tar', ['-tzf', archive('seinectl')], {}, signal);
  const names = ['LICENSE', 'README.md', 'package.json', 'seinectl.mjs', 'third-party-licenses.txt'];
  expect(listed.trim().split('\n').toSorted()).toEqual(names.map((name) => `package/${name}`));
  const licenses = await run('tar', ['-xzOf', archive('seinectl'), 'package/third-party-licenses.txt'], {}, signal);
  for (const name of ['commander', 'ws', 'yaml', 'zod']) expect(licenses).toMatch(new RegExp(`^${name} \\d`, 'm'));
  const bundle = await run('tar', ['-xzOf', archive('seinectl'), 'package/seinectl.mjs'], {}, signal);
  expect(bundle.match(/koffi|dlopen|[\w/-]+\.node["']/g)).toBeNull();
});

it('reads the state of all agents through the API server, without a native module', async () => {
  const fleet = new FakeFleet({ agents: ['node-1', 'node-2'].map((node) => ({ node, reply: { answer: fakeStatus(node) } })) });
  const server = `http://127.0.0.1:${await fleet.listen()}`;
  const kubeconfig = join(folder, 'kubeconfig');
  const context = { name: 'here', context: { cluster: 'here', user: 'me' } };
  const users = [{ name: 'me', user: { token: 'secret' } }];
  writeFileSync(
    kubeconfig,
    JSON.stringify({ clusters: [{ name: 'here', cluster: { server } }], users, contexts: [context], 'current-context': 'here' }),
  );
  try {
    const { code, stdout, stderr } = await seinectl('cluster', 'status', '--kubeconfig', kubeconfig);
    expect(stderr).not.toContain('native module');
    expect(code).toBe(0);
    expect(stdout).toContain('2 agents: 2 answered');
  } finally {
    await fleet.close();
  }
});

it('has the version of the release, and for commands of nodes names the place where they run', async () => {
  expect(await seinectl('--version')).toMatchObject({ code: 0, stdout: `${version}\n` });
  const { code, stderr } = await seinectl('status');
  expect(code).toBe(2);
  expect(stderr).toContain("unknown command 'status'");
  expect(stderr).toContain('kubectl -n seine-system exec POD -c agent -- seinectl COMMAND');
});

const consumer = `
import { OvsdbClient } from '@example/seine-ovsdb';
import { openVswitch } from '@example/seine-ovsdb/schema/open-vswitch';
import * as openflow from '@example/seine-openflow';
const schema: string = openVswitch.name;
console.log(JSON.stringify({ client: typeof OvsdbClient, schema, openflow: Object.keys(openflow).length > 10 }));
`;

it('has libraries with types, which a strict project compiles and runs', async () => {
  const project = mkdtempSync(join(folder, 'project-'));
  writeFileSync(join(project, 'package.json'), JSON.stringify({ type: 'module', private: true }));
  writeFileSync(join(project, 'consumer.ts'), consumer);
  await run('npm', ['install', '--prefix', project, ...offline, archive('seine-ovsdb'), archive('seine-openflow')], {}, signal);
  const tsc = join(packageRoot, 'node_modules', '.bin', 'tsc');
  const settings = ['--strict', '--module', 'nodenext', '--target', 'es2023', '--types', 'node'];
  const types = ['--typeRoots', join(packageRoot, 'node_modules', '@types'), '--outDir', project];
  await run(tsc, ['--ignoreConfig', ...settings, ...types, join(project, 'consumer.ts')], {}, signal);
  const said = JSON.parse(await run(process.execPath, [join(project, 'consumer.js')], {}, signal)) as unknown;
  expect(said).toEqual({ client: 'function', schema: 'Open_vSwitch', openflow: true });
});
