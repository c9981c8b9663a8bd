import { createHash } from 'node:crypto';
import { copyFileSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { run } from '../../lab/machine/process.ts';

export const tinyImage = 'localhost/seine/tiny:1';

const applets = [
  'sh',
  'sleep',
  'ip',
  'ping',
  'ping6',
  'printf',
  'httpd',
  'hostname',
  'cat',
  'ls',
  'nc',
  'dd',
  'test',
  'echo',
  'true',
  'mkdir',
  'rm',
];

/** Path of the archive of `makeTinyImage`. */
export const tinyArchive = (folder: string): string => join(folder, 'image', 'tiny.tar');

/**
 * Creates a container image with busybox alone, in the format of `docker save`; its containers sleep by default.
 *
 * @param env of every container of it
 */
export async function makeTinyImage(folder: string, env: Readonly<Record<string, string>>, signal: AbortSignal): Promise<void> {
  const parts = join(folder, 'image');
  const root = join(parts, 'root');
  for (const part of ['bin', 'etc', 'tmp', 'www', 'proc', 'sys', 'dev']) mkdirSync(join(root, part), { recursive: true });
  copyFileSync('/bin/busybox', join(root, 'bin', 'busybox'));
  for (const applet of applets) symlinkSync('busybox', join(root, 'bin', applet));
  writeFileSync(join(root, 'etc', 'passwd'), 'root:x:0:0:root:/:/bin/sh\n');
  await run('tar', ['-C', root, '--numeric-owner', '-cf', join(parts, 'layer.tar'), '.'], {}, signal);
  const layer = createHash('sha256')
    .update(readFileSync(join(parts, 'layer.tar')))
    .digest('hex');
  const config = {
    architecture: process.arch === 'x64' ? 'amd64' : process.arch,
    os: 'linux',
    config: { Env: ['PATH=/bin', ...Object.entries(env).map(([key, value]) => `${key}=${value}`)], Cmd: ['/bin/sleep', '1000000'] },
    rootfs: { type: 'layers', diff_ids: [`sha256:${layer}`] },
  };
  writeFileSync(join(parts, 'config.json'), JSON.stringify(config));
  writeFileSync(join(parts, 'manifest.json'), JSON.stringify([{ Config: 'config.json', RepoTags: [tinyImage], Layers: ['layer.tar'] }]));
  await run('tar', ['-C', parts, '-cf', tinyArchive(folder), 'manifest.json', 'config.json', 'layer.tar'], {}, signal);
}
