import { sha256 } from '../base/bytes/sha256.ts';
import type { Attachment } from './request.ts';

/*
 * A DEL that finds no agent until its deadline is recorded and reported as done: a container runtime should be able to stop a pod while its
 * network is down. The agent executes recorded DELs when it is back. One file for each attachment in `<stateDir>/deletions`; its content is
 * the request in the format of the socket (wire.ts).
 */

export const deletionsFolder = 'deletions';

/** Maximum number of files, more than any node has pods. Beyond it DEL fails with code 11 and the runtime retries. */
export const deletionFilesMax = 10_000;

/**
 * Hash of the attachment, so that no input becomes part of a path. @param hash SHA-256 in hexadecimal digits: the agent has a faster
 * implementation than the plugin
 */
export function deletionFileName({ network, containerId, ifName }: Attachment, hash: (text: string) => string = sha256): string {
  return `${hash(`${network}/${containerId}/${ifName}`)}.json`;
}
