import fc from 'fast-check';
import { describe, it } from 'vitest';
import { modelRuns } from '../support/model-runs.ts';
import { conversations } from './conversation.ts';
import { forgeries } from './forgeries.ts';
import { modelOracle } from './oracle.ts';
import { exampleScene, ofOneFamily, type Scene, withDirectPeers } from './scene.ts';

const scenes: Readonly<Record<string, Scene>> = {
  'of both families': exampleScene,
  'of IPv4': ofOneFamily(exampleScene, 'ipv4'),
  'of IPv6': ofOneFamily(exampleScene, 'ipv6'),
  'with GRE': { ...exampleScene, node: { ...exampleScene.node, tunnel: { ...exampleScene.node.tunnel, type: 'gre', port: 0 } } },
  'with direct peers': withDirectPeers(exampleScene, 'all'),
  'of IPv4 with a direct peer and one in the tunnel': withDirectPeers(ofOneFamily(exampleScene, 'ipv4'), 'one'),
  'with peers that differ by family': withDirectPeers(exampleScene, 'one'),
  'without ranges of Services': { ...exampleScene, node: { ...exampleScene.node, serviceCidrs: [] } },
};

describe.each(Object.entries(scenes))("a node %s meets the product's promises", (_, scene) => {
  it.each(['userspace', 'kernel'] as const)('in every conversation, on the %s data path', async (datapath) => {
    const runs = fc.asyncProperty(conversations(scene), fc.array(fc.nat(), { minLength: 1 }), async (conversation, choices) =>
      modelOracle(scene, { datapath, choices }).follow(conversation),
    );
    await fc.assert(runs, { numRuns: modelRuns(500) });
  });

  it('with all forgeries', async () => {
    const runs = fc.asyncProperty(fc.array(forgeries(scene), { minLength: 1, maxLength: 4 }), async (arrivals) => {
      const oracle = modelOracle(scene, { datapath: 'userspace' });
      for (const arrival of arrivals) await oracle.receive(arrival);
    });
    await fc.assert(runs, { numRuns: modelRuns(500) });
  });
});
