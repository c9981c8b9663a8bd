import { join } from 'node:path';
import { expect, it } from 'vitest';
import { inside, ip, type Lab, withNamespaces } from './netlink-fixture.ts';

const source = join(import.meta.dirname, '../../src');

/**
 * Tests a path, in a process inside the namespace: frames are sent from where it is. A round in which this process had no time counts for
 * nothing: there are twenty until the transport address answers.
 */
function roundIn(lab: Lab): unknown {
  const script = `
    import { parseCidr, parseIp } from '${source}/base/net/ip.ts';
    import { openPathProbe } from '${source}/nodes/modes/verify-paths.ts';
    const probe = openPathProbe(() => parseIp('10.10.0.1'));
    const path = { peer: 'n2', family: 'ipv4', network: parseCidr('10.10.4.0/22'), transport: parseIp('192.0.2.2') };
    let round = {};
    for (let rounds = 0; rounds < 20 && !round.transport; rounds++) round = await probe.test(path, new AbortController().signal);
    probe.close();
    console.log(JSON.stringify(round));`;
  return JSON.parse(inside(lab, process.execPath, '--input-type=module-typescript', '--disable-warning=ExperimentalWarning', '-e', script));
}

it('tests a path to the gateway of a peer without a route to it, also while the next hop is unknown', async () => {
  await withNamespaces(2, (a, b) => {
    ip(a, 'link', 'add', 'w0', 'type', 'veth', 'peer', 'name', 'w0', 'netns', b.name);
    for (const [lab, address, gateway] of [
      [a, '192.0.2.1/24', '10.10.0.1/32'],
      [b, '192.0.2.2/24', '10.10.4.1/32'],
    ] as const) {
      for (const link of ['lo', 'w0']) ip(lab, 'link', 'set', link, 'up');
      ip(lab, 'addr', 'add', address, 'dev', 'w0');
      ip(lab, 'addr', 'add', gateway, 'dev', 'lo');
    }
    ip(b, 'route', 'add', '10.10.0.0/22', 'via', '192.0.2.1');
    expect(roundIn(a)).toEqual({ direct: true, transport: true });
    expect(roundIn(a)).toEqual({ direct: true, transport: true }); // with a next hop that is known

    inside(
      b,
      'nft',
      'add table inet deaf; add chain inet deaf in { type filter hook input priority 0; }; add rule inet deaf in ip daddr 10.10.4.1 drop',
    );
    expect(roundIn(a)).toEqual({ direct: false, transport: true });
  });
});
