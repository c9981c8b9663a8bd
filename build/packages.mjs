/**
 * Prepares `dist/packages/ovsdb` and `dist/packages/openflow` for `npm pack`: the manifest and the page from the sources, and from
 * `dist/src`, the output of tsc, the files that the library imports. So a tarball needs no other package
 * (docs/adr/0045-libraries-carry-what-they-stand-on.md).
 *
 * `dist/packages/seinectl` is the `cluster` commands as one file, for hosts that are not nodes.
 */
import { chmodSync, copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, normalize, resolve } from 'node:path';

const root = resolve(import.meta.dirname, '..');
const compiled = join(root, 'dist', 'src');

for (const library of ['ovsdb', 'openflow']) {
  const target = join(root, 'dist', 'packages', library);
  rmSync(target, { recursive: true, force: true });
  for (const file of reachedFrom(entriesOf(library))) copy(join(compiled, file), join(target, 'dist', file));
  for (const name of ['package.json', 'README.md']) copy(join(root, 'src', library, name), join(target, name));
  copy(join(root, 'LICENSE'), join(target, 'LICENSE'));
}

laySeinectl(join(root, 'dist', 'packages', 'seinectl'));

function laySeinectl(target) {
  const { version, license, engines } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const manifest = {
    name: 'seinectl',
    version,
    description: 'The cluster commands of seinectl, for the Kubernetes network Seine',
    license,
    type: 'module',
    private: true,
    engines,
    bin: { seinectl: 'seinectl.mjs' },
    files: ['seinectl.mjs', 'third-party-licenses.txt', 'README.md', 'LICENSE'],
  };
  rmSync(target, { recursive: true, force: true });
  mkdirSync(target, { recursive: true });
  writeFileSync(join(target, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`);
  const bundle = readFileSync(join(root, 'dist', 'seinectl-cluster.mjs'), 'utf8');
  writeFileSync(join(target, 'seinectl.mjs'), `#!/usr/bin/env node\n${bundle}`);
  chmodSync(join(target, 'seinectl.mjs'), 0o755);
  copy(join(root, 'dist', 'seinectl-cluster.licenses.txt'), join(target, 'third-party-licenses.txt'));
  copy(join(root, 'build', 'seinectl', 'npm', 'README.md'), join(target, 'README.md'));
  copy(join(root, 'LICENSE'), join(target, 'LICENSE'));
}

/** Modules that an importer can name by `exports` of the manifest; a `*` stands for every source of its folder. */
function entriesOf(library) {
  const { exports } = JSON.parse(readFileSync(join(root, 'src', library, 'package.json'), 'utf8'));
  return Object.values(exports).flatMap(({ default: path }) => {
    const file = path.replace('./dist/', '');
    if (!file.includes('*')) return [file];
    const sources = readdirSync(join(root, 'src', dirname(file))).filter((name) => name.endsWith('.ts') && !name.endsWith('.test.ts'));
    return sources.map((name) => join(dirname(file), name.replace(/\.ts$/, '.js')));
  });
}

/** The files and all that they import, code and types. */
function reachedFrom(entries) {
  const reached = new Set();
  const visit = (file) => {
    if (reached.has(file)) return;
    reached.add(file);
    for (const [, specifier] of readFileSync(join(compiled, file), 'utf8').matchAll(/(?:from|import\(|import) ?['"](\.[^'"]+)['"]/g)) {
      const target = normalize(join(dirname(file), specifier)).replace(/\.(?:d\.)?[jt]s$/, '');
      visit(`${target}${file.endsWith('.d.ts') ? '.d.ts' : '.js'}`);
    }
  };
  for (const entry of entries) {
    visit(entry);
    visit(entry.replace(/\.js$/, '.d.ts'));
  }
  return reached;
}

function copy(from, to) {
  mkdirSync(dirname(to), { recursive: true });
  copyFileSync(from, to);
}
