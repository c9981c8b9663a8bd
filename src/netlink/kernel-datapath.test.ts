import fc from 'fast-check';
import { expect, it } from 'vitest';
import { SeineError } from '../base/errors/seine-error.ts';
import { decodeDatapath } from './kernel-datapath.ts';

/** Answer of the kernel on a little-endian host; written by hand from linux/genetlink.h and linux/openvswitch.h. */
const answer = Buffer.from(
  [
    '03020000 05000000', // genlmsghdr: command 3, version 2; ovs_header: ifindex 5
    '0f000100 6f76732d 73797374 656d0000', // OVS_DP_ATTR_NAME "ovs-system"
    '24000300 0700000000000000 0300000000000000 0100000000000000 0200000000010000', // OVS_DP_ATTR_STATS
    '24000400 0900000000000000 04000000 00000000 0500000000000000 0000000000000000', // OVS_DP_ATTR_MEGAFLOW_STATS
    '08000500 07000000', // OVS_DP_ATTR_USER_FEATURES
  ]
    .join('')
    .replaceAll(' ', ''),
  'hex',
);

it('reads the counters of a data path', () => {
  expect(decodeDatapath({ payload: answer })).toEqual({
    name: 'ovs-system',
    hits: 7,
    misses: 3,
    lost: 1,
    megaflows: 2 ** 40 + 2,
    masks: 4,
  });
});

it('rejects a truncated answer', () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: answer.length - 8 }), (length) => {
      if (length === answer.length - 8) return; // without the attribute that is not needed
      expect(() => decodeDatapath({ payload: answer.subarray(0, length) })).toThrow(SeineError);
    }),
  );
});
