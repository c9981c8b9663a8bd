import type { PodIntent } from '../connectivity/compile-pod.ts';
import type { PodAttachment } from '../ipam/attachment.ts';

/** The switch's side of an attachment. */
interface PodPort {
  readonly ofPort: number;
  readonly datapathType: 'system' | 'netdev';
}

/**
 * What a pod's flows are compiled from. On the kernel's data path the chained `bandwidth` plugin limits both directions; a
 * second limit of the same rate would only drop more.
 */
export function podIntent(
  { mac, addresses, egress }: Pick<PodAttachment, 'mac' | 'addresses' | 'egress'>,
  { ofPort, datapathType }: PodPort,
): PodIntent {
  const limit = egress && datapathType === 'netdev' ? { egress } : {};
  return { ofPort, mac, addresses: addresses.map(({ ip }) => ip), ...limit };
}
