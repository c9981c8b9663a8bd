import { closeSync, openSync, readdirSync, readFileSync, readSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { buildImages, imagesFor, podman, releaseStorage } from '../runtime/image-builder.ts';

/*
 * The images of an installation, built for arm64 from their own Dockerfiles: compiled on this host, put together by emulation, and each of their
 * programs started once. Their use of a kernel is tested in the virtual machine: qemu's user emulation has no netlink.
 */

const signal = AbortSignal.timeout(1_800_000);
const images = imagesFor('arm64');

beforeAll(async () => {
  await buildImages(signal, 'arm64');
});
afterAll(async () => {
  await releaseStorage(AbortSignal.timeout(60_000));
});

async function inImage(image: string, ...command: readonly string[]): Promise<string> {
  return await podman(['run', '--rm', '--network', 'none', image, ...command], signal);
}

/** `e_machine` of elf(5); BPF programs, as in libxdp, are the same everywhere. */
const [aarch64, bpf] = [183, 247];

/** Files below a folder. `readdir` with `recursive` would follow links to the host's own folders. */
function filesBelow(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    return entry.isDirectory() ? filesBelow(path) : entry.isFile() ? [path] : [];
  });
}

/** The architecture of each program and library below a folder, by path; other files are omitted. */
function machinesBelow(folder: string): Map<string, number> {
  const found = new Map<string, number>();
  const start = Buffer.alloc(20);
  for (const path of filesBelow(folder)) {
    const fd = openSync(path, 'r');
    try {
      const length = readSync(fd, start, 0, start.length, 0);
      if (length === start.length && start.readUInt32BE(0) === 0x7f45_4c46) found.set(path.slice(folder.length), start.readUInt16LE(18));
    } finally {
      closeSync(fd);
    }
  }
  return found;
}

async function mounted<T>(image: string, look: (folder: string) => T): Promise<T> {
  const folder = (await podman(['image', 'mount', image], signal)).trim();
  try {
    return look(folder);
  } finally {
    await podman(['image', 'umount', image], signal);
  }
}

it.each(Object.entries(images))('has the image of %s for arm64, and no program of another architecture in it', async (name, image) => {
  expect((await podman(['image', 'inspect', '--format', '{{.Os}}/{{.Architecture}}', image], signal)).trim()).toBe('linux/arm64');
  const machines = await mounted(image, machinesBelow);
  const programs = name === 'agent' ? ['node', 'cni/seine', 'cni/portmap', 'koffi.node'] : ['ovs-vswitchd', 'ovsdb-server', 'ovs-vsctl'];
  for (const program of programs) expect([...machines.keys()].filter((path) => path.endsWith(`/${program}`))).not.toEqual([]);
  expect([...machines].filter(([, machine]) => machine !== aarch64 && machine !== bpf)).toEqual([]);
});

it.each(Object.entries(images))('has no compiler and no npm in the image of %s, and a list of its parts', async (_name, image) => {
  const tools = /\/(?:gcc|cc|as|ld|make|npm)$/;
  const found = await mounted(image, (folder) => ({
    tools: ['usr/bin', 'usr/local/bin'].flatMap((below) => readdirSync(join(folder, below)).filter((name) => tools.test(`/${name}`))),
    parts: JSON.parse(readFileSync(join(folder, 'usr/share/seine/sbom.cdx.json'), 'utf8')) as { components: { purl: string }[] },
  }));
  expect(found.tools).toEqual([]);
  const debian = found.parts.components.flatMap(({ purl }) => (purl.startsWith('pkg:deb/') ? [purl.split('?arch=')[1]] : []));
  expect(new Set(debian)).toEqual(new Set(['arm64', 'all']));
});

it('has a Node, an agent, a seinectl and an installer that start', async () => {
  expect(await inImage(images.agent, '/opt/seine/bin/node', '--print', 'process.arch')).toBe('arm64\n');
  expect(await inImage(images.agent, 'seine-agent', '--help')).toContain('Usage');
  expect(await inImage(images.agent, 'seinectl', '--help')).toContain('Usage');
  expect(await inImage(images.agent, 'install-cni', '--help')).not.toBe('');
});

it.each(['seine', 'portmap', 'bandwidth', 'loopback'])('has the plugin %s, which prints its versions', async (plugin) => {
  const output = await inImage(images.agent, 'env', 'CNI_COMMAND=VERSION', `/opt/seine/cni/${plugin}`);
  expect(JSON.parse(output)).toMatchObject({ supportedVersions: expect.arrayContaining(['1.0.0']) as unknown });
});

it('has an Open vSwitch that starts', async () => {
  expect(await inImage(images.ovs, 'ovs-vswitchd', '--version')).toContain('(Open vSwitch)');
  expect(await inImage(images.ovs, 'ovsdb-server', '--version')).toContain('(Open vSwitch)');
  expect(await inImage(images.ovs, 'bash', '-n', '/usr/local/bin/ovs-start')).toBe('');
});
