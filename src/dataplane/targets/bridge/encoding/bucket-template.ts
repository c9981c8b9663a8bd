import { ByteWriter } from '../../../../base/bytes/bytes.ts';
import { addressBits, type Family, ipFromBytes } from '../../../../base/net/ip.ts';
import { writeBucket } from '../../../../openflow/groups/group.ts';
import type { Bucket, StepsPattern, TransportAddress } from '../../../pipeline/flow.ts';
import { ByteTemplate, probes, writePlace } from './byte-template.ts';
import { toActions } from './to-openflow.ts';

/** Number of bytes after the address: two of the port, four of the bucket's number, two of its weight. */
const restBytes = 8;

/** Encoder of buckets: a pattern is encoded once, and the bytes of each bucket are written over that. */
export class BucketTemplates {
  /** Templates by pattern and family, kept as long as the pattern is in use. */
  readonly #known = new WeakMap<StepsPattern, Map<Family, ByteTemplate>>();
  readonly #given = new Uint8Array(addressBits('ipv6') / 8 + restBytes);
  readonly #view = new DataView(this.#given.buffer);

  /** Writes a bucket. @throws SeineError `INVARIANT` if the steps of a pattern differ by more than their endpoint */
  write(w: ByteWriter, bucket: Bucket, id: number): void {
    const { weight, from } = bucket;
    if (from) {
      this.#load(from.place, id, weight);
      w.raw(this.#templateOf(from.pattern, from.place.ip.family).filled(this.#given));
    } else writeBucket(w, { id, weight, actions: toActions(bucket.steps) });
  }

  #load(place: TransportAddress, id: number, weight: number): void {
    const at = writePlace(this.#view, place);
    this.#view.setUint32(at, id);
    this.#view.setUint16(at + 4, weight);
  }

  #templateOf(pattern: StepsPattern, family: Family): ByteTemplate {
    const byFamily = this.#known.get(pattern) ?? new Map<Family, ByteTemplate>();
    this.#known.set(pattern, byFamily);
    const template = byFamily.get(family) ?? templateOf(pattern, family);
    byFamily.set(family, template);
    return template;
  }
}

function templateOf(pattern: StepsPattern, family: Family): ByteTemplate {
  const addressBytes = addressBits(family) / 8;
  const given = addressBytes + restBytes;
  const encoded = probes(given, (bytes) => {
    const [ip, rest] = [ipFromBytes(bytes.subarray(0, addressBytes)), new DataView(bytes.buffer, addressBytes)];
    const w = new ByteWriter(256);
    writeBucket(w, { id: rest.getUint32(2), weight: rest.getUint16(6), actions: toActions(pattern({ ip, port: rest.getUint16(0) })) });
    return Buffer.from(w.written()).toString('latin1');
  });
  return ByteTemplate.of(encoded, given);
}
