import { expect, it } from 'vitest';
import packageJson from '../../package.json' with { type: 'json' };
import { seineVersion } from './version.ts';

it('is the version of the package', () => {
  expect(seineVersion).toBe(packageJson.version);
});
