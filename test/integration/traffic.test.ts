import { expect, it } from 'vitest';
import { Traffic } from '../reliability/traffic.ts';
import { until } from '../support/converge-lab.ts';
import { inside, withWire } from './netlink-fixture.ts';

/** The traffic by which tests of faults count losses, tested itself. */

const patienceMs = 10_000;

it('recreates a connection that ended, however often it was refused meanwhile', () =>
  withWire(async (one, two) => {
    const nft = (commands: string) => inside(two, 'nft', commands);
    nft('add table ip faults; add chain ip faults in { type filter hook input priority 0; }');
    const traffic = await Traffic.start(
      [{ netns: two.name, ips: ['10.0.0.2'] }],
      [{ name: 'wire', from: { netns: one.name }, addresses: ['10.0.0.2'], service: false }],
      50,
    );
    const answeredAgain = async () => {
      const sinceMs = performance.now();
      await until(
        () => traffic.silentSince(sinceMs).length === 0,
        patienceMs,
        () => `silent: ${traffic.silentSince(sinceMs).join(', ')}`,
      );
    };
    await answeredAgain();
    nft('add rule ip faults in tcp dport 7777 counter reject with tcp reset');
    const refusals = () => Number(/packets (\d+)/.exec(nft('list table ip faults'))?.[1]);
    await until(
      () => refusals() > 50,
      patienceMs,
      () => 'nothing is refused',
    );
    nft('flush chain ip faults in');
    await answeredAgain();
    expect(await traffic.stop()).toMatchObject({ broken: 1 });
  }));
