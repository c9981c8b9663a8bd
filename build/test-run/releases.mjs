import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '../setup/paths.mjs';

/** @returns {string[]} released versions, as recorded by `npm run release`, the newest first */
export function recordedReleases() {
  return readdirSync(join(root, 'test', 'fixtures', 'releases')).sort((a, b) => b.localeCompare(a, 'en', { numeric: true }));
}
