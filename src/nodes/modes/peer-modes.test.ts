import { expect, it } from 'vitest';
import { parseCidr, parseIp } from '../../base/net/ip.ts';
import type { Peer } from '../../kubernetes/resources/peer-source.ts';
import { PeerModes } from './peer-modes.ts';
import { TunnelResize } from './tunnel-resize.ts';

const [address, families] = [parseIp('192.168.77.2'), ['ipv4'] as const];
const peerWith = (announces?: 'direct' | 'tunnel'): Peer => ({
  name: 'n2',
  podCidrs: ['10.10.4.0/22'],
  transport: { ipv4: address.text },
  addresses: [address.text],
  ...(announces && { announces }),
});

/** Node in noEncap mode whose pods have the MTU of the network, or that of the tunnel. */
function nodeWith(mtu: 'whole' | 'tunnel') {
  const resize = new TunnelResize(mtu === 'tunnel');
  const needed: string[] = [];
  resize.needed = () => void needed.push('needed');
  const modes = new PeerModes({
    settings: { encapMode: 'noEncap', directRoutes: 'auto', verifyDirect: true, directCidrs: [] },
    linkTo: () => 'eth0',
    isExpected: () => true,
    accepts: () => true,
    echoOf: () => 'answered',
    resultOf: () => 'answered',
    fitsTunnel: () => resize.fits,
    needsTunnel: () => resize.needed(),
    now: () => 0,
    date: () => new Date(0),
  });
  const select = (peer: Peer): string => {
    const { direct } = modes.select(peer, { transport: [address], podCidrs: peer.podCidrs.map(parseCidr) }, families);
    return `${direct ? 'direct' : 'tunnel'}: ${modes.shown('n2').map(({ reason }) => reason)}`;
  };
  return { modes, resize, needed, select, isOutdated: (peer: Peer) => modes.isOutdated(peer, families) };
}

it('is not sent to through the tunnel before pods have an MTU that leaves room for it', () => {
  const { modes, resize, needed, select, isOutdated } = nodeWith('tunnel');
  expect(select(peerWith('direct'))).toMatch(/^direct/);
  resize.want(modes.usesTunnel());
  expect([resize.usesTunnel, resize.fits, resize.isPending]).toEqual([false, false, false]); // the MTU grows

  expect(select(peerWith('tunnel'))).toBe('direct: the tunnel is next, once pods have an MTU that leaves room for it');
  expect(needed).toEqual(['needed']);
  expect(isOutdated(peerWith('tunnel'))).toBe(false);
  resize.want(modes.usesTunnel());
  expect([resize.usesTunnel, resize.isPending]).toEqual([true, true]); // the MTU shrinks
  expect(select(peerWith('tunnel'))).toMatch(/^direct/);

  resize.done();
  expect(isOutdated(peerWith('tunnel'))).toBe(true);
  expect(select(peerWith('tunnel'))).toMatch(/^tunnel/);
  expect(resize.isPending).toBe(false);
});

it('is direct again if it returns to that before pods have another MTU', () => {
  const { modes, resize, select } = nodeWith('whole');
  select(peerWith('direct'));
  select(peerWith('tunnel'));
  resize.want(modes.usesTunnel());
  expect(select(peerWith('direct'))).toBe('direct: the peer is on the link');
  resize.want(modes.usesTunnel());
  expect([resize.usesTunnel, resize.isPending]).toEqual([false, false]);
});

it('is reached through the tunnel from the beginning if it was never direct', () => {
  const { select, needed } = nodeWith('whole');
  expect(select(peerWith())).toMatch(/^tunnel/);
  expect(needed).toEqual([]);
});

it('is reached as by a previous agent while only objects from disk are known', () => {
  const path = { hop: { via: address, dev: 'eth0' } };
  let unread = true;
  const modes = new PeerModes({
    settings: { encapMode: 'hybrid', directRoutes: 'auto', verifyDirect: true, directCidrs: [] },
    linkTo: () => 'eth0',
    isExpected: () => false,
    accepts: () => true,
    previousPath: () => (unread ? path : undefined),
    echoOf: () => 'answered',
    resultOf: () => 'answered',
    now: () => 0,
    date: () => new Date(0),
  });
  const select = () => modes.select(peerWith(), { transport: [address], podCidrs: [parseCidr('10.10.4.0/22')] }, families);
  expect(select()).toEqual({ direct: { ipv4: path }, maySendDirectly: true });
  unread = false;
  expect(modes.isOutdated(peerWith(), families)).toBe(true);
  expect(select()).toEqual({});
});
