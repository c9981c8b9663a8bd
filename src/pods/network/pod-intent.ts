import type { PodIntent, RateLimit } from '../../dataplane/compile/compile-pod.ts';
import type { PodAttachment } from '../ipam/attachment.ts';

/** Size of the largest packet that the kernel forms by segmentation offload (bytes): a packet larger than the bucket would never pass. */
const JOINED_BYTES_MAX = 65_536 + 14;

/** Port of an attachment in OVS. */
interface PodPort {
  readonly ofPort: number;
  readonly datapathType: 'system' | 'netdev';
}

/**
 * Returns the intent from which a pod's flows are compiled. If a chained `bandwidth` plugin limits a direction, a second limit of the same
 * rate would only drop more packets. The plugin limits both directions on the kernel data path, and what a pod receives on the userspace
 * one.
 */
export function podIntent(
  { mac, addresses, egress, ingress, limits }: Pick<PodAttachment, 'mac' | 'addresses' | 'egress' | 'ingress' | 'limits'>,
  { ofPort, datapathType }: PodPort,
): PodIntent {
  const isBoth = limits === 'both';
  return {
    ofPort,
    mac,
    addresses: addresses.map(({ ip }) => ip),
    ...(egress && (isBoth || datapathType === 'netdev') ? { egress: limitOn(datapathType, egress) } : {}),
    ...(ingress && isBoth ? { ingress: limitOn(datapathType, ingress) } : {}),
  };
}

function limitOn(datapathType: PodPort['datapathType'], { rate, burst }: RateLimit): RateLimit {
  return { rate, burst: datapathType === 'system' ? Math.max(burst, JOINED_BYTES_MAX * 8) : burst };
}
