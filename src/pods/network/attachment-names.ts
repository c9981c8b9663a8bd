import { createHash } from 'node:crypto';
import { type Owner, ownerOf } from '../../dataplane/pipeline/cookie.ts';
import { standingPortPattern } from '../../dataplane/targets/links/pre-plugged-links.ts';
import type { AttachmentKey, PodIdentity } from '../ipam/attachment.ts';
import { attachmentId } from '../ipam/lease.ts';

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

/** What `hostInterfaceName` returns looks like this. */
export const hostInterfacePattern = /^[a-z0-9]{1,7}-[0-9a-f]{7}$/;

/** Whether an interface is the node's end of a pod's pair, which an agent has made: its alias, or that of a standing port's far end, has a slash. */
export function isPodInterface({ name, alias }: { readonly name: string; readonly alias?: string | undefined }): boolean {
  return (hostInterfacePattern.test(name) || standingPortPattern.test(name)) && alias?.includes('/') === true;
}

export function podOwner(key: AttachmentKey, pod: PodIdentity | undefined): Owner {
  return ownerOf('pod', pod?.namespace ?? '-', pod?.name ?? '-', `${key.ifName}@${key.containerId}`);
}

/** Of its flows in the entry tables: who the attachment is to policy. */
export function subjectOwner(key: AttachmentKey, pod: PodIdentity | undefined): Owner {
  return ownerOf('subject', pod?.namespace ?? '-', pod?.name ?? '-', `${key.ifName}@${key.containerId}`);
}

/** The kernel takes no more (`IFALIASZ` of linux/if.h, less the NUL). */
const ALIAS_BYTES_MAX = 255;

/**
 * What `ip link` shows at the host end: for people whose it is, and after that what is needed to know the pod again if everything
 * else is lost, as far as there is room.
 */
export function hostInterfaceAlias({ network, containerId }: AttachmentKey, pod: PodIdentity | undefined): string {
  const whose = pod ? `${pod.namespace}/${pod.name}` : '-/-';
  const whole = `${whose} ${network} ${containerId}`;
  return Buffer.byteLength(whole) <= ALIAS_BYTES_MAX ? whole : whose.slice(0, ALIAS_BYTES_MAX);
}

/** @returns undefined if that is no alias of ours, or one that had no room for everything */
export function parseHostInterfaceAlias(
  alias: string | undefined,
): { readonly network: string; readonly containerId: string; readonly pod?: PodIdentity } | undefined {
  const [whose = '', network = '', containerId = '', ...more] = (alias ?? '').split(' ');
  const [namespace = '', name = '', ...rest] = whose.split('/');
  if (network === '' || containerId === '' || name === '' || more.length + rest.length > 0) return undefined;
  return { network, containerId, ...(whose === '-/-' ? {} : { pod: { namespace, name, uid: '' } }) };
}
