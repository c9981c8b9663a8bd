import type { ClusterPeerObject, ClusterProtocolObject, ClusterRuleObject } from '../verify/reference/objects.ts';
import { type DraftRule, peerFields, type RuleDirection } from './drafts.ts';

/** Entries that the API admits in a list of rules, peers, protocols or networks. */
const ENTRIES_MAX = 25;

/** Returns the rules of the API for a rule: several with the same effect where one list would be too long, or mix what the API separates. */
export function rulesOf({ name, action, peers, protocols }: DraftRule, direction: RuleDirection): readonly ClusterRuleObject[] {
  return kindsOf(peers, protocols).flatMap((kind) => {
    const lists = kind.protocols ? chunks(kind.protocols) : [undefined];
    return chunks(kind.peers.flatMap(withinLimit)).flatMap((some) =>
      lists.map((entries) => ({
        ...(name === undefined ? {} : { name }),
        action,
        [peerFields[direction]]: some,
        ...(entries ? { protocols: entries } : {}),
      })),
    );
  });
}

/** Number of rules that `rulesOf` returns, without building them: the lists of one rule multiply. */
export function ruleCount({ peers, protocols }: DraftRule): number {
  const counts = kindsOf(peers, protocols).map(
    (kind) => chunkCount(kind.peers.flatMap(withinLimit).length) * (kind.protocols ? chunkCount(kind.protocols.length) : 1),
  );
  return counts.reduce((sum, each) => sum + each, 0);
}

type PeersWithProtocols = Pick<DraftRule, 'peers' | 'protocols'>;

/** Divides peers where they cannot share a rule: networks and nodes have no named ports, and domain names have a rule of their own. */
function kindsOf(
  peers: readonly ClusterPeerObject[],
  protocols: readonly ClusterProtocolObject[] | undefined,
): readonly PeersWithProtocols[] {
  const numbered = protocols?.filter(({ destinationNamedPort }) => destinationNamedPort === undefined);
  const [names, others] = [peers.filter(isByName), peers.filter((peer) => !isByName(peer))];
  const hasNamed = numbered?.length !== protocols?.length;
  const [pods, addresses] = hasNamed ? [others.filter(isOfPods), others.filter((peer) => !isOfPods(peer))] : [others, []];
  const kinds: readonly PeersWithProtocols[] = [
    { peers: pods, ...(protocols ? { protocols } : {}) },
    { peers: addresses, ...(numbered ? { protocols: numbered } : {}) },
    { peers: names, ...(numbered ? { protocols: numbered } : {}) },
  ];
  return kinds.filter((kind) => kind.peers.length > 0 && kind.protocols?.length !== 0);
}

function isOfPods({ namespaces, pods }: ClusterPeerObject): boolean {
  return namespaces !== undefined || pods !== undefined;
}

function isByName({ domainNames }: ClusterPeerObject): boolean {
  return domainNames !== undefined;
}

function withinLimit(peer: ClusterPeerObject): readonly ClusterPeerObject[] {
  if (peer.networks) return chunks([...new Set(peer.networks)]).map((networks) => ({ networks }));
  if (peer.domainNames) return chunks([...new Set(peer.domainNames)]).map((domainNames) => ({ domainNames }));
  return [peer];
}

export function chunkCount(entries: number): number {
  return Math.ceil(entries / ENTRIES_MAX);
}

export function chunks<T>(entries: readonly T[]): readonly (readonly T[])[] {
  return Array.from({ length: chunkCount(entries.length) }, (_, at) => entries.slice(at * ENTRIES_MAX, (at + 1) * ENTRIES_MAX));
}
