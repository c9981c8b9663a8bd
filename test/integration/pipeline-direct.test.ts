import fc from 'fast-check';
import { afterAll, beforeAll, describe, it } from 'vitest';
import { conversations } from '../model/conversation.ts';
import { Oracle } from '../model/oracle.ts';
import { exampleScene, withDirectPeers } from '../model/scene.ts';
import { PacketBench } from '../support/packet-bench.ts';

/** Packets through a real switch of a node that reaches its peers without a tunnel: both, or one of them in one family. */
describe.each(['all', 'one'] as const)('a real switch with direct peers: %s', (which) => {
  const scene = withDirectPeers(exampleScene, which);
  let bench: PacketBench;
  beforeAll(async () => {
    bench = await PacketBench.start(scene);
  });
  afterAll(async () => bench?.stop());

  it("meets the product's promises in every conversation", async () => {
    const runs = fc.asyncProperty(conversations(scene), async (conversation) => {
      await bench.forgetConnections();
      await new Oracle(scene, (arrival) => bench.receive(arrival)).follow(conversation);
    });
    await fc.assert(runs, { numRuns: 1000 });
  });
});
