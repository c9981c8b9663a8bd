import { expect, it } from 'vitest';
import { withVersion } from './control-plane.ts';

it('uses the newest Kubernetes by default, and the named one otherwise', () => {
  const version = expect.stringMatching(/^1\.\d+\.\d+$/);
  expect(withVersion(['--kubernetes'])).toEqual(['--kubernetes', version]);
  expect(withVersion(['--kubernetes', '--seed', '7'])).toEqual(['--kubernetes', version, '--seed', '7']);
  expect(withVersion(['--seed', '7', '--kubernetes', '1.30'])).toEqual(['--seed', '7', '--kubernetes', '1.30']);
});
