import { execFileSync } from 'node:child_process';
import { chmodSync, copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';

/** Modules that the first process needs to reach the host's file system; the rest is loaded from there. */
const modules = ['virtio_pci', 'virtio_rng', '9pnet_virtio', '9p', 'overlay'];

/**
 * Packs busybox, `init` and the modules it loads, in the order they depend on each other, into an initrd.
 *
 * @param {{ kernelFolder: string, version: string, busybox: string, init: string, file: string }} options `busybox`, `init` and `file` are paths
 */
export function makeInitrd({ kernelFolder, version, busybox, init, file }) {
  const tree = mkdtempSync(`${file}.`);
  try {
    for (const folder of ['bin', 'proc', 'sys', 'dev', 'modules', 'host', 'layer', 'root']) mkdirSync(join(tree, folder));
    copyFileSync(busybox, join(tree, 'bin', 'busybox'));
    copyFileSync(init, join(tree, 'init'));
    chmodSync(join(tree, 'init'), 0o755);
    const names = modulePaths(kernelFolder, version).map((path) => addModule(path, join(tree, 'modules')));
    writeFileSync(join(tree, 'modules', 'order'), `${names.join('\n')}\n`);
    const archive = execFileSync('sh', ['-c', 'find . | cpio -o -H newc --quiet'], { cwd: tree, maxBuffer: 256 << 20 });
    writeFileSync(`${file}.new`, archive);
    renameSync(`${file}.new`, file);
  } finally {
    rmSync(tree, { recursive: true });
  }
}

/** Dependencies before the modules that need them, each once. `builtin` lines of modprobe name no file. */
function modulePaths(kernelFolder, version) {
  const lines = modules.flatMap((module) =>
    execFileSync('modprobe', ['-d', kernelFolder, '-S', version, '--show-depends', module], { encoding: 'utf8' }).split('\n'),
  );
  return [...new Set(lines.flatMap((line) => (line.startsWith('insmod ') ? [line.split(' ')[1] ?? ''] : [])))].filter(existsSync);
}

/** Adds a module uncompressed, as busybox requires. Newer Debian compresses modules. */
function addModule(path, folder) {
  const compressed = path.endsWith('.xz');
  const name = basename(path, compressed ? '.xz' : '');
  writeFileSync(join(folder, name), compressed ? execFileSync('xz', ['-dc', path], { maxBuffer: 64 << 20 }) : readFileSync(path));
  return name;
}
