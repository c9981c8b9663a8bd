import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ask } from '../setup/commands.mjs';
import { SetupError, say } from '../setup/progress.mjs';
import { copyInto, layer, librariesOf, mergedTree, tree, writeArchive } from './image-archive.mjs';

/** Debian packages whose programs upstream's tests call inside of containers; the host's own, with the libraries they load. */
const toolPackages =
  'bash dash libc-bin coreutils curl wget grep sed mawk hostname procps iproute2 iputils-ping netcat-openbsd bind9-dnsutils bind9-host findutils iperf';
/** Programs that Debian links to one of several implementations. */
const alternatives = { sh: 'dash', awk: 'mawk', nc: 'nc.openbsd' };
const files = ['/etc/ssl/certs/ca-certificates.crt', '/etc/nsswitch.conf', '/etc/protocols', '/etc/services'];
const passwd = 'root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\n';
const group = 'root:x:0:\nnogroup:x:65534:\n';

/** The Kubernetes image registry, as a prefix of names; it is never contacted. */
const registry = 'registry.k8s.io/';
/** The lab's own image: the lab answers in its pods, and the container only waits. */
const responderImage = 'docker.io/library/responder:latest';
/** The image of the conformance suite of ClusterNetworkPolicy. */
const policyApiImage = `${registry}e2e-test-images/agnhost:2.45`;
const coreDnsImage = `${registry}coredns/coredns:seine`;

/** Folder of the archives of this host's images, next to their programs. @param {string} programs their folder */
export function imageFolder(programs) {
  const recipe = createHash('sha256')
    .update(readFileSync(import.meta.filename))
    .update(readFileSync(join(import.meta.dirname, 'image-archive.mjs')))
    .digest('hex')
    .slice(0, 12);
  return join(programs, `images-${recipe}`);
}

/**
 * Creates the archives of images, without Docker and without a registry: each program in its own layer, above the host's own shell, curl
 * and dig if tests call those. Atomic.
 *
 * @param {{ programs: string, porter: string }} sources `porter` is the folder with agnhost's certificate for its server
 * @returns {string} their folder
 */
export function makeImages({ programs, porter }) {
  const folder = imageFolder(programs);
  say('packing images of pause, CoreDNS and the tests');
  const work = mkdtempSync(join(programs, '.images.'));
  try {
    const out = join(work, 'out');
    mkdirSync(out);
    for (const image of imagesOf({ programs, porter, work })) writeArchive(work, join(out, `${image.name}.tar`), image);
    renameSync(out, folder);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
  return folder;
}

function imagesOf({ programs, porter, work }) {
  const from = (name) => join(programs, name);
  const named = namesFor(ask(from('e2e.test'), ['--list-images']) ?? '');
  const tools = layer(work, 'tools', toolTree(join(work, 'tools')));
  const pause = layer(work, 'pause', tree(join(work, 'pause'), { pause: from('pause') }));
  const coreDns = layer(work, 'coredns', tree(join(work, 'coredns'), { coredns: from('coredns') }));
  const certificates = Object.fromEntries(['crt', 'key'].map((end) => [`localhost.${end}`, join(porter, `localhost.${end}`)]));
  const agnhost = layer(work, 'agnhost', tree(join(work, 'agnhost'), { agnhost: from('agnhost'), ...certificates }));
  const regression = 'regression-issue-74839';
  return [
    { name: 'pause', tags: [...named('pause'), responderImage], layers: [pause], entry: ['/pause'], user: '65535:65535' },
    { name: 'coredns', tags: [coreDnsImage], layers: [coreDns], entry: ['/coredns'] },
    {
      name: 'agnhost',
      tags: [...named('e2e-test-images/agnhost'), policyApiImage],
      layers: [tools, coreDns, pause, agnhost],
      entry: ['/agnhost'],
      command: ['pause'],
    },
    {
      name: 'tools',
      tags: [...named('e2e-test-images/busybox'), ...named('e2e-test-images/glibc-dns-testing')],
      layers: [tools],
      command: ['sh'],
    },
    {
      name: regression,
      tags: named(`e2e-test-images/${regression}`),
      layers: [layer(work, regression, tree(join(work, regression), { [regression]: from(regression) }))],
      entry: [`/${regression}`],
    },
  ];
}

/** The image names that upstream's tests use, each with its versions. */
function namesFor(listed) {
  const all = listed.split('\n');
  return (name) => {
    const found = all.filter((one) => one.startsWith(`${registry}${name}:`));
    if (found.length === 0) throw new SetupError(`e2e.test lists no image ${name}`, 'run `npm run build:kubernetes` again');
    return found;
  };
}

/** The host's programs of `toolPackages`, and the libraries that they load, under their own paths. */
function toolTree(folder) {
  mergedTree(folder);
  const programs = toolPackages.split(' ').flatMap(programsOfPackage);
  const libraries = new Set(programs.flatMap(librariesOf));
  for (const path of [...programs, ...libraries, ...files]) if (existsSync(path)) copyInto(folder, path);
  for (const [name, program] of Object.entries(alternatives))
    if (!existsSync(join(folder, 'usr/bin', name))) symlinkSync(program, join(folder, 'usr/bin', name));
  mkdirSync(join(folder, 'root'), { recursive: true });
  writeFileSync(join(folder, 'etc/passwd'), passwd);
  writeFileSync(join(folder, 'etc/group'), group);
  return folder;
}

function programsOfPackage(name) {
  const listed = ask('dpkg-query', ['-L', name]);
  if (listed === undefined) throw new SetupError(`the Debian package ${name} is not installed`, `\`apt-get install ${name}\``);
  return listed.split('\n').filter((path) => /^(\/usr)?\/s?bin\/[^/]+$/.test(path) && existsSync(path) && statSync(path).isFile());
}
