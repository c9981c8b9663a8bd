import type { NodeView } from '../../../api/object.ts';
import type { NodeEnvironment } from '../../../dataplane/compile/environment.ts';
import { ownerOf } from '../../../dataplane/pipeline/cookie.ts';
import type { Peer } from '../../../kubernetes/resources/peer-source.ts';
import type { NodeSnapshot } from '../../diagnose/entries/node-reader.ts';
import type { Parts } from '../../diagnose/entries/targets.ts';
import { holdingsOf } from './holdings.ts';

export function ownNodeView(
  name: string,
  { environment, publicKey }: { readonly environment: NodeEnvironment; readonly publicKey: string | undefined },
  parts: Parts,
  snapshot: NodeSnapshot,
): NodeView {
  const texts = (values: readonly { readonly text: string }[]): string[] => values.map(({ text }) => text);
  return {
    ...holdingsOf(parts, snapshot, [ownerOf('node')]),
    name,
    role: 'self',
    podCidrs: texts(environment.podCidrs),
    transport: texts(environment.transport),
    ...(environment.wireGuard && publicKey !== undefined ? { wireGuard: { publicKey, handshakeSeconds: null } } : {}),
  };
}

/** @param objections reasons why it is not served as specified */
export function peerView(
  { name, podCidrs, transport }: Peer,
  {
    objections,
    modes,
    wireGuard,
  }: { readonly objections: readonly string[] } & Required<Pick<NodeView, 'modes'>> & Pick<NodeView, 'wireGuard'>,
  parts: Parts,
  snapshot: NodeSnapshot,
): NodeView {
  const ends = [transport.ipv4, transport.ipv6].filter((end) => end !== undefined);
  const holdings = holdingsOf(parts, snapshot, [ownerOf('peer', name)]);
  const idle = podCidrs.length === 0 || ends.length === 0;
  return {
    ...holdings,
    name,
    role: 'peer',
    state: idle ? 'idle' : holdings.state,
    differences: [
      ...(podCidrs.length === 0 ? ['the Node has no spec.podCIDRs yet'] : []),
      ...(ends.length === 0 ? ['the Node has no InternalIP yet'] : []),
      ...objections,
      ...holdings.differences,
    ],
    podCidrs,
    transport: ends,
    modes,
    ...(wireGuard && { wireGuard }),
  };
}
