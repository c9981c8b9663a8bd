import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { build } from 'esbuild';

const root = resolve(import.meta.dirname, '../..');

/** File with the digest of each picture's view at the time when it was taken. */
export const digestsFile = join(root, 'docs/images/digests.json');

/** Views of the pictures in docs/images, by name of the picture. */
export const viewsOfPictures = {
  now: 'now-view.tsx',
  traffic: 'traffic/traffic-view.tsx',
  timeline: 'timeline-view.tsx',
  trace: 'trace-view.tsx',
  policy: 'policy/policy-view.tsx',
  simulator: 'simulator/simulator-view.tsx',
} as const;

export type PictureName = keyof typeof viewsOfPictures;

/** Digest of the sources of a view: its modules, those that they import, and the style. Types alone do not count. */
export async function digestOfView(name: PictureName): Promise<string> {
  const folder = join(root, 'src/ui/page');
  const { metafile } = await build({
    absWorkingDir: root,
    entryPoints: [join(folder, viewsOfPictures[name])],
    bundle: true,
    write: false,
    outdir: root,
    format: 'esm',
    jsx: 'automatic',
    jsxImportSource: 'preact',
    packages: 'external',
    metafile: true,
    logLevel: 'silent',
  });
  const hash = createHash('sha256');
  for (const path of [...Object.keys(metafile.inputs), 'src/ui/page/page.css', 'src/ui/page/app.tsx'].toSorted())
    hash.update(`${path}\n${readFileSync(join(root, path), 'utf8')}\n`);
  return hash.digest('hex').slice(0, 16);
}
