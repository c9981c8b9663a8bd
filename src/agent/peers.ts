import { compilePeer, type PeerIntent } from '../connectivity/compile-peer.ts';
import type { NodeEnvironment } from '../connectivity/environment.ts';
import type { NodeDatapath } from '../datapath/node-datapath.ts';
import type { Peer, PeerSource } from '../kube/peer-source.ts';
import { parseCidr } from '../net/ip.ts';
import { ownerOf } from '../pipeline/cookie.ts';
import { transportOf } from './node-environment.ts';

/** Keeps what this node wants for each other node in step with the peer source, one peer at a time. */
export function followPeers(source: PeerSource, datapath: NodeDatapath, environment: NodeEnvironment): () => void {
  const refresh = (name: string): void => {
    const peer = source.get(name);
    const owner = ownerOf('peer', name);
    if (peer) datapath.want(owner, compilePeer(peerIntent(peer), environment));
    else datapath.forget(owner);
  };
  for (const { name } of source.peers()) refresh(name);
  return source.subscribe((names) => {
    for (const name of names) refresh(name);
  });
}

function peerIntent({ name, podCidrs, transport }: Peer): PeerIntent {
  return { name, podCidrs: podCidrs.map(parseCidr), transport: transportOf(transport) };
}
