import { createHash } from 'node:crypto';
import type { PeerSource } from './peer-source.ts';

/**
 * Reports whether this node is the one that posts events about an object. Rendezvous hashing: every node computes the same result by
 * itself.
 */
export function isReportingNode(uid: string, nodeName: string, peers: Pick<PeerSource, 'peers'>): boolean {
  const score = (name: string): string => createHash('sha256').update(`${uid} ${name}`).digest('hex');
  const own = score(nodeName);
  for (const { name } of peers.peers()) if (score(name) > own) return false;
  return true;
}
