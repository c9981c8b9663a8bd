import { expect, it } from 'vitest';
import { mountsBelow } from './mounts.ts';

const mountinfo = [
  '21 1 254:0 / / rw - ext4 /dev/vda rw',
  '30 21 254:0 /lab/a /run/lab/a rw shared:1 - ext4 /dev/vda rw',
  '31 30 0:4 net:[1] /run/lab/a/cni-1 rw - nsfs nsfs rw',
  '32 21 0:4 net:[2] /run/lab/with\\040space rw - nsfs nsfs rw',
  '33 21 0:4 net:[3] /run/lab-2/a rw - nsfs nsfs rw',
  '',
].join('\n');

it('lists mounts below a folder, the last first, and none of a folder with the same prefix', () => {
  expect(mountsBelow(mountinfo, '/run/lab')).toEqual(['/run/lab/with space', '/run/lab/a/cni-1', '/run/lab/a']);
});
