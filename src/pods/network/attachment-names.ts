import { createHash } from 'node:crypto';
import { type Owner, ownerOf } from '../../dataplane/pipeline/cookie.ts';
import { standingPortPattern } from '../../dataplane/targets/links/pre-plugged-links.ts';
import type { AttachmentKey, PodIdentity } from '../ipam/attachment.ts';
import { attachmentId } from '../ipam/lease.ts';

/** Length of the readable part of an interface name. The kernel allows 15 characters: seven for readers, a dash, seven for uniqueness. */
const PREFIX_LENGTH = 7;
const HASH_LENGTH = 7;

/** Returns the name of a pod's host interface. It is computed, so that a restarted agent, a DEL and an operator can find it. */
export function hostInterfaceName(key: AttachmentKey, pod: PodIdentity | undefined): string {
  const prefix =
    (pod?.name ?? 'pod')
      .toLowerCase()
      .replace(/[^a-z0-9]/g, '')
      .slice(0, PREFIX_LENGTH) || 'pod';
  const hash = createHash('sha256').update(attachmentId(key)).digest('hex').slice(0, HASH_LENGTH);
  return `${prefix}-${hash}`;
}

/** Pattern of names that `hostInterfaceName` returns. */
export const hostInterfacePattern = /^[a-z0-9]{1,7}-[0-9a-f]{7}$/;

/**
 * Reports whether an interface is the host end of a pod's pair, made by an agent: its alias, or that of a pre-plugged port's far end,
 * contains a slash.
 */
export function isPodInterface({ name, alias }: { readonly name: string; readonly alias?: string | undefined }): boolean {
  return (hostInterfacePattern.test(name) || standingPortPattern.test(name)) && alias?.includes('/') === true;
}

export function podOwner(key: AttachmentKey, pod: PodIdentity | undefined): Owner {
  return ownerOf('pod', pod?.namespace ?? '-', pod?.name ?? '-', `${key.ifName}@${key.containerId}`);
}

/** Owner of the attachment's flows in the entry tables, by which policy identifies it. */
export function subjectOwner(key: AttachmentKey, pod: PodIdentity | undefined): Owner {
  return ownerOf('subject', pod?.namespace ?? '-', pod?.name ?? '-', `${key.ifName}@${key.containerId}`);
}

/** Maximum length of an alias in the kernel (`IFALIASZ` of linux/if.h, without the NUL). */
const ALIAS_BYTES_MAX = 255;

/**
 * Returns the alias of a host interface, as shown by `ip link`: the pod, then, if there is room, the data needed to identify the pod if
 * everything else is lost.
 */
export function hostInterfaceAlias({ network, containerId }: AttachmentKey, pod: PodIdentity | undefined): string {
  const whose = pod ? `${pod.namespace}/${pod.name}` : '-/-';
  const whole = `${whose} ${network} ${containerId}`;
  return Buffer.byteLength(whole) <= ALIAS_BYTES_MAX ? whole : whose.slice(0, ALIAS_BYTES_MAX);
}

/** Parses an alias. @returns undefined if it is not ours, or had no room for all parts */
export function parseHostInterfaceAlias(
  alias: string | undefined,
): { readonly network: string; readonly containerId: string; readonly pod?: PodIdentity } | undefined {
  const [whose = '', network = '', containerId = '', ...more] = (alias ?? '').split(' ');
  const [namespace = '', name = '', ...rest] = whose.split('/');
  if (network === '' || containerId === '' || name === '' || more.length + rest.length > 0) return undefined;
  return { network, containerId, ...(whose === '-/-' ? {} : { pod: { namespace, name, uid: '' } }) };
}
