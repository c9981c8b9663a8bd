/**
 * Builds the images of an installation and puts both into one archive, for a runtime without a registry. `node test/kernel/export-images.ts
 * FILE [RELEASE | older-ovs]`: those of the checkout, or of a released version, from the history; or Open vSwitch of an older Debian alone.
 */
import { existsSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  agentImage,
  buildImages,
  buildImagesOfRelease,
  buildOlderOvs,
  imagesOfRelease,
  olderOvsImage,
  ovsImage,
  podman,
  releaseStorage,
} from '../runtime/image-builder.ts';
import { checkOutRelease, releaseOf } from '../support/releases.ts';

const signal = AbortSignal.timeout(1_200_000);

async function exportImages(archive: string, images: readonly string[], build: () => Promise<void>): Promise<void> {
  await build();
  try {
    const ids = await podman(['image', 'inspect', '--format', '{{.Id}}', ...images], signal);
    const stamp = `${archive}.ids`;
    if (existsSync(archive) && existsSync(stamp) && readFileSync(stamp, 'utf8') === ids) return;
    // podman does not overwrite an archive.
    for (const file of [stamp, archive, `${archive}.draft`]) rmSync(file, { force: true });
    const draft = `${archive}.draft`;
    await podman(['save', '--multi-image-archive', '--format', 'docker-archive', '--output', draft, ...images], signal);
    renameSync(draft, archive);
    writeFileSync(stamp, ids);
  } finally {
    await releaseStorage(signal);
  }
}

async function buildRelease(version: string): Promise<void> {
  const source = mkdtempSync(join(tmpdir(), 'seine-release-'));
  try {
    await checkOutRelease(releaseOf(version), source);
    await buildImagesOfRelease(version, source, signal);
  } finally {
    rmSync(source, { recursive: true });
  }
}

const [, , archive, version] = process.argv;
if (archive === undefined) throw new Error('where to?');
if (version === undefined) await exportImages(archive, [ovsImage, agentImage], () => buildImages(signal));
else if (version === 'older-ovs') await exportImages(archive, [olderOvsImage], () => buildOlderOvs(signal));
else {
  const { ovs, agent } = imagesOfRelease(version);
  await exportImages(archive, [ovs, agent], () => buildRelease(version));
}
