import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Family } from '../../src/base/net/ip.ts';
import { slowness } from './test-datapath.ts';

/** Answer to a packet with one TTL or hop limit. */
export type Hop =
  | { readonly from: string; readonly type: number; readonly code: number }
  | { readonly reply: string }
  | { readonly silent: true };

export interface HopProbe {
  readonly protocol: 'udp' | 'tcp';
  readonly address: string;
  readonly port: number;
  readonly last?: number;
  /** Seconds for which each packet may wait for its answer. */
  readonly seconds?: number;
}

export const timeExceeded: Readonly<Record<Family, { readonly type: number; readonly code: number }>> = {
  ipv4: { type: 11, code: 0 },
  ipv6: { type: 3, code: 0 },
};

/** Traces the hops to an address from a network namespace. Only errors that quote the packet as it was sent count. */
export async function traceHops(
  netns: string,
  { protocol, address, port, last = 5, seconds = 5 * slowness }: HopProbe,
): Promise<readonly Hop[]> {
  const script = join(import.meta.dirname, 'hops.py');
  const command = ['python3', script, protocol, address, `${port}`, `${last}`, `${seconds}`];
  const { stdout } = await promisify(execFile)('nsenter', [`--net=/run/netns/${netns}`, ...command]);
  return JSON.parse(stdout);
}
