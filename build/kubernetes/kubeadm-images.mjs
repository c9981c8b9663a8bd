import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { ask } from '../setup/commands.mjs';
import { SetupError, say } from '../setup/progress.mjs';
import { copyInto, layer, librariesOf, mergedTree, tree, writeArchive } from './image-archive.mjs';

const certificates = '/etc/ssl/certs/ca-certificates.crt';
/** Programs of this host that kube-proxy calls in its mode `nftables`. */
const calledByKubeProxy = ['nft'];

/**
 * Images that kubeadm asks a registry for, by the last part of their names: where each program has to be in its image.
 * kubeadm's static pods call the programs of the control plane by name, and give CoreDNS and kube-proxy arguments or a path.
 */
const placeOf = {
  etcd: 'usr/local/bin/etcd',
  'kube-apiserver': 'usr/local/bin/kube-apiserver',
  'kube-controller-manager': 'usr/local/bin/kube-controller-manager',
  'kube-scheduler': 'usr/local/bin/kube-scheduler',
  'kube-proxy': 'usr/local/bin/kube-proxy',
  coredns: 'coredns',
  pause: 'pause',
};

/** Names of the images. */
export const kubeadmImageNames = Object.keys(placeOf);

/** Archives of this recipe, next to the programs that they contain. @param {string} programs folder */
export function kubeadmImageFolder(programs) {
  const sources = ['kubeadm-images.mjs', 'image-archive.mjs'].map((name) => readFileSync(join(import.meta.dirname, name)));
  const recipe = sources
    .reduce((hash, text) => hash.update(text), createHash('sha256'))
    .digest('hex')
    .slice(0, 12);
  return join(programs, `kubeadm-images-${recipe}`);
}

/**
 * Packs images for kubeadm, one archive for each program, without Docker and without a registry. All or none.
 *
 * @param {Readonly<Record<string, string>>} programs paths by the names of the images
 * @param {string} folder where the archives go
 */
export function makeKubeadmImages(programs, folder) {
  if (existsSync(folder)) return;
  say('packing images for kubeadm');
  mkdirSync(join(folder, '..'), { recursive: true });
  const work = mkdtempSync(`${folder}.draft-`);
  try {
    const out = join(work, 'out');
    mkdirSync(out);
    const base = layer(work, 'base', baseTree(join(work, 'base')));
    for (const [name, program] of Object.entries(programs)) {
      const { [name]: place } = placeOf;
      const own = layer(work, name, tree(join(work, name), { [place]: program }));
      const layers = name === 'kube-proxy' ? [base, own] : [own];
      writeArchive(work, join(out, `${name}.tar`), { tags: [`seine.invalid/${name}:built`], layers, entry: [`/${place}`] });
    }
    renameSync(out, folder);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

function baseTree(folder) {
  mergedTree(folder);
  const programs = calledByKubeProxy.map((name) => {
    const path = ask('sh', ['-c', `command -v ${name}`])?.trim();
    if (path === undefined) throw new SetupError(`${name} is not installed`, `\`apt-get install ${name === 'nft' ? 'nftables' : name}\``);
    return path;
  });
  for (const path of [...programs, ...programs.flatMap(librariesOf), certificates]) if (existsSync(path)) copyInto(folder, path);
  return folder;
}
