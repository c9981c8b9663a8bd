import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '../setup/paths.mjs';

/** @returns {string[]} versions that were released, as `npm run release` recorded them, the newest first */
export function recordedReleases() {
  return readdirSync(join(root, 'test', 'fixtures', 'releases')).sort((a, b) => b.localeCompare(a, 'en', { numeric: true }));
}
