import type { Bits } from '../../../dataplane/pipeline/flow.ts';

/** Values of `flowLog.sampling`: of so many connections one is recorded. Powers of two, because flows match bits of the source port. */
export const samplingChoices = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024] as const;
export type Sampling = (typeof samplingChoices)[number];

/**
 * Returns the source ports of connections that are recorded; undefined if all are. Both nodes of a connection see the same port of its
 * client, and so choose the same connections; as packets of a connection have it in common, it needs no memory. Pure.
 *
 * The last bit does not count: Linux gives clients even ports first, one after the other for one destination. Source:
 * net/ipv4/inet_hashtables.c `__inet_hash_connect`.
 */
export function sampledPorts(sampling: Sampling): Bits | undefined {
  return sampling === 1 ? undefined : { value: 0, mask: (sampling - 1) << 1 };
}

/** Reports whether a connection is recorded. One without ports is. Pure. */
export function isSampled(sampling: Sampling, sourcePort: number | undefined): boolean {
  const bits = sampledPorts(sampling);
  return bits === undefined || sourcePort === undefined || (sourcePort & bits.mask) === bits.value;
}
