/**
 * Builds the images of an installation and puts both into one archive, for a runtime that has no registry to fetch them from.
 * `node test/kernel/export-images.ts FILE`
 */
import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { agentImage, buildImages, ovsImage, podman, releaseStorage } from '../runtime/image-builder.ts';

const signal = AbortSignal.timeout(1_200_000);

async function exportImages(archive: string): Promise<void> {
  await buildImages(signal);
  try {
    const ids = await podman(['image', 'inspect', '--format', '{{.Id}}', ovsImage, agentImage], signal);
    const stamp = `${archive}.ids`;
    if (existsSync(archive) && existsSync(stamp) && readFileSync(stamp, 'utf8') === ids) return;
    // podman does not write over an archive.
    for (const file of [stamp, archive, `${archive}.draft`]) rmSync(file, { force: true });
    const draft = `${archive}.draft`;
    await podman(['save', '--multi-image-archive', '--format', 'docker-archive', '--output', draft, ovsImage, agentImage], signal);
    renameSync(draft, archive);
    writeFileSync(stamp, ids);
  } finally {
    await releaseStorage(signal);
  }
}

const [, , archive] = process.argv;
if (archive === undefined) throw new Error('where to?');
await exportImages(archive);
