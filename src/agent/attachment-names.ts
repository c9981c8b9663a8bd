import { createHash } from 'node:crypto';
import { type Owner, ownerOf } from '../pipeline/cookie.ts';
import { attachmentId } from './ipam/lease.ts';
import type { AttachmentKey, PodIdentity } from './pod-network-port.ts';

/** The kernel takes 15 characters: seven for people, seven for uniqueness. */
const PREFIX_LENGTH = 7;
const HASH_LENGTH = 7;

/** The host end of a pod's veth: computed, so that a restarted agent, a DEL and a person find it again. */
export function hostInterfaceName(key: AttachmentKey, pod: PodIdentity | undefined): string {
  const prefix =
    (pod?.name ?? 'pod')
      .toLowerCase()
      .replace(/[^a-z0-9]/g, '')
      .slice(0, PREFIX_LENGTH) || 'pod';
  const hash = createHash('sha256').update(attachmentId(key)).digest('hex').slice(0, HASH_LENGTH);
  return `${prefix}-${hash}`;
}

/** Links that an agent may have left behind look like this, and carry an alias with a slash. */
export const hostInterfacePattern = /^[a-z0-9]{1,7}-[0-9a-f]{7}$/;

export function podOwner(key: AttachmentKey, pod: PodIdentity | undefined): Owner {
  return ownerOf('pod', pod?.namespace ?? '-', pod?.name ?? '-', `${key.ifName}@${key.containerId}`);
}

/** What `ip link` shows at the host end. */
export function hostInterfaceAlias(key: AttachmentKey, pod: PodIdentity | undefined): string {
  return pod ? `${pod.namespace}/${pod.name}` : `-/${key.containerId.slice(0, 64)}`;
}
