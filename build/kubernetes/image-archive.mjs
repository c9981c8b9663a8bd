import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  copyFileSync,
  cpSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { ask } from '../setup/commands.mjs';

/** Fills a folder with these files, by their names in it. */
export function tree(folder, sources) {
  for (const name of ['etc', 'proc', 'sys', 'dev', 'tmp']) mkdirSync(join(folder, name), { recursive: true });
  for (const [name, source] of Object.entries(sources)) linkOrCopy(source, join(folder, name));
  return folder;
}

/** Makes the folders of a Debian, in which `/bin` is `/usr/bin`. */
export function mergedTree(folder) {
  tree(folder, {});
  for (const name of ['bin', 'sbin', 'lib', 'lib64']) {
    mkdirSync(join(folder, 'usr', name), { recursive: true });
    symlinkSync(`usr/${name}`, join(folder, name));
  }
}

function linkOrCopy(source, target) {
  mkdirSync(dirname(target), { recursive: true });
  try {
    linkSync(source, target);
  } catch {
    copyFileSync(source, target);
  }
}

/** Paths of the libraries that a program of this host loads. */
export function librariesOf(program) {
  const said = ask('ldd', [program]) ?? '';
  return [...said.matchAll(/(?:=> )?(\/\S+) \(0x/g)].map(([, path]) => path);
}

/** Copies a file of this host to its path in the image, where `/bin` is `/usr/bin`. A link becomes the file that it names. */
export function copyInto(folder, path) {
  const target = join(folder, path.replace(/^\/(bin|sbin|lib|lib64)\//, '/usr/$1/'));
  if (lstatSync(target, { throwIfNoEntry: false })) return;
  mkdirSync(dirname(target), { recursive: true });
  cpSync(realpathSync(path), target);
}

/** Packs a folder as a layer: the archive, and the digest that an image names it by. */
export function layer(work, name, folder) {
  const file = join(work, `${name}.layer.tar`);
  if (!existsSync(file)) tar(file, folder, ['.']);
  return { file, digest: createHash('sha256').update(readFileSync(file)).digest('hex') };
}

/** Writes an image as `docker save` does. containerd imports such an archive, and clients of registries push it. */
export function writeArchive(work, file, { tags, layers, entry, command, user }) {
  const folder = mkdtempSync(join(work, 'archive.'));
  for (const { file: source, digest } of layers) linkOrCopy(source, join(folder, `${digest}.tar`));
  const config = JSON.stringify({
    architecture: process.arch === 'x64' ? 'amd64' : process.arch,
    os: 'linux',
    config: {
      Env: ['PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'],
      ...(entry && { Entrypoint: entry }),
      ...(command && { Cmd: command }),
      ...(user && { User: user }),
    },
    rootfs: { type: 'layers', diff_ids: layers.map(({ digest }) => `sha256:${digest}`) },
    history: layers.map(() => ({ created_by: 'seine' })),
  });
  const configName = `${createHash('sha256').update(config).digest('hex')}.json`;
  writeFileSync(join(folder, configName), config);
  const manifest = [{ Config: configName, RepoTags: tags, Layers: layers.map(({ digest }) => `${digest}.tar`) }];
  writeFileSync(join(folder, 'manifest.json'), JSON.stringify(manifest));
  tar(file, folder, ['manifest.json', configName, ...new Set(layers.map(({ digest }) => `${digest}.tar`))]);
  rmSync(folder, { recursive: true });
}

/** Packs the same bytes from the same files, so that the digest of a layer does not change. */
function tar(file, folder, names) {
  const same = ['--sort=name', '--owner=0', '--group=0', '--numeric-owner', '--mtime=@0', '--format=gnu', '--hard-dereference'];
  execFileSync('tar', [...same, '-C', folder, '-cf', file, ...names], { stdio: ['ignore', 'ignore', 'inherit'] });
}
