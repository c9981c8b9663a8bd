import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { conversations } from '../model/conversation.ts';
import { forgeries } from '../model/forgeries.ts';
import { Oracle } from '../model/oracle.ts';
import { exampleScene } from '../model/scene.ts';
import { modelRuns } from '../support/model-runs.ts';
import { PacketBench } from '../support/packet-bench.ts';

/** The third oracle: packets, byte by byte, through a real switch with its own conntrack, caches and tunnels. */
describe('a real switch', () => {
  let bench: PacketBench;
  beforeAll(async () => {
    bench = await PacketBench.start(exampleScene);
  });
  afterAll(async () => bench.stop());

  const oracle = () => new Oracle(exampleScene, (arrival) => bench.receive(arrival));

  const everyConversation = () =>
    fc.asyncProperty(conversations(exampleScene), async (conversation) => {
      await bench.forgetConnections();
      await oracle().follow(conversation);
    });

  it("meets the product's promises in every conversation", async () => {
    await fc.assert(everyConversation(), { numRuns: modelRuns(3_000) });
  });

  it('accepts no forged packet', async () => {
    const runs = fc.asyncProperty(forgeries(exampleScene), async (arrival) => {
      await bench.forgetConnections();
      await oracle().receive(arrival);
    });
    await fc.assert(runs, { numRuns: 3000 });
  });

  it('counts tunnel packets of unknown peers, by address', async () => {
    const counted = bench.ovs.exec('ovs-ofctl', '-O', 'OpenFlow15', 'dump-flows', 'br-int', 'table=120');
    expect(counted).toMatch(/n_packets=[1-9][0-9]*,.*tun_src=192\.168\.77\.66/);
    expect(counted).toMatch(/n_packets=[1-9][0-9]*,.*tun_ipv6_src=fd00:77::66/);
    expect(counted).not.toMatch(/tun_src=192\.168\.77\.2\b|tun_ipv6_src=fd00:77::3\b/);
  });

  it('fails the test when a flow is missing', async () => {
    bench.ovs.exec('ovs-ofctl', '-O', 'OpenFlow15', 'del-flows', 'br-int', 'table=66');
    const { failed, errorInstance } = await fc.check(everyConversation(), { seed: 7, numRuns: 1000, endOnFailure: true });
    expect([failed, String(errorInstance)]).toEqual([true, expect.stringMatching(/allowed .*\n.*happened/s)]);
  });
});
