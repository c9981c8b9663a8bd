import { ByteReader, type ByteWriter } from '../../base/bytes/bytes.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { readActions, writeActions } from '../actions/actions.ts';
import { OPENFLOW_13, ofGroup, ofPort } from '../protocol.ts';
import type { Bucket, GroupType } from './bucket.ts';

const HEAD_BYTES = 16;

/**
 * Source: OpenFlow 1.3.5 `ofp_bucket` (u16 length, u16 weight, u32 watch port, u32 watch group, 4 zero, actions). Unwatched ports and
 * groups are `ANY`.
 */
export function writeBucketIn13(w: ByteWriter, bucket: Bucket, type: GroupType): void {
  const start = w.length;
  w.u16(0)
    .u16(bucket.weight ?? (type === 'select' ? 1 : 0))
    .u32(bucket.watchPort ?? ofPort.any)
    .u32(bucket.watchGroup ?? ofGroup.any)
    .zeros(4);
  writeActions(w, bucket.actions, OPENFLOW_13);
  w.patchU16(start, w.length - start);
}

/** Reads buckets to the end. They have no numbers in 1.3: they are counted from 0, as Open vSwitch counts them. */
export function readBucketsIn13(r: ByteReader): Bucket[] {
  const buckets: Bucket[] = [];
  while (r.remaining > 0) {
    const length = r.peekU16(0);
    if (length < HEAD_BYTES) throw new SeineError('PROTOCOL', `bucket of ${length} bytes`);
    buckets.push(readBucket(new ByteReader(r.raw(length), 'bucket').skip(2), buckets.length));
  }
  return buckets;
}

function readBucket(r: ByteReader, id: number): Bucket {
  const [weight, watchPort, watchGroup] = [r.u16(), r.u32(), r.u32()];
  return {
    id,
    ...(weight === 0 ? {} : { weight }),
    ...(watchPort === ofPort.any ? {} : { watchPort }),
    ...(watchGroup === ofGroup.any ? {} : { watchGroup }),
    actions: readActions(r.skip(4), OPENFLOW_13),
  };
}
