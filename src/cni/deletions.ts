import type { Attachment } from './request.ts';
import { sha256 } from './sha256.ts';

/*
 * A DEL that finds no agent until its deadline is recorded and reported as done: it does not help if a container runtime cannot stop a
 * pod because its network is away. The agent carries recorded DELs out when it is back. One file for each attachment in
 * `<stateDir>/deletions`, its content the request as it goes over the socket (wire.ts).
 */

export const deletionsFolder = 'deletions';

/** More than any node has pods. Beyond it DEL fails with code 11 and the runtime keeps trying. */
export const deletionFilesMax = 10_000;

/** A hash, so that no input becomes part of a path. @param hash SHA-256 in hexadecimal digits: the agent has a faster one than the plugin */
export function deletionFileName({ network, containerId, ifName }: Attachment, hash: (text: string) => string = sha256): string {
  return `${hash(`${network}/${containerId}/${ifName}`)}.json`;
}
