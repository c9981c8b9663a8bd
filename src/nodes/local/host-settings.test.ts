import { describe, expect, it } from 'vitest';
import { exampleNode } from '../../../test/support/example-node.ts';
import type { NodeEnvironment } from '../../dataplane/compile/environment.ts';
import { settingsInput, wantHostSettings } from './host-settings.ts';

const wireGuard = { device: 'antrea-wg0', port: 51_820, unencryptedPeers: 'allow' } as const;

/** Environments of a node before and after changes that matter for its settings. */
const environments: Readonly<Record<string, NodeEnvironment>> = {
  'tunnel alone': exampleNode,
  'direct packets': { ...exampleNode, directPackets: true },
  encryption: { ...exampleNode, wireGuard },
  'encryption that ends': { ...exampleNode, wireGuard: { ...wireGuard, isEnding: true } },
  'IPv4 alone': {
    ...exampleNode,
    podCidrs: exampleNode.podCidrs.slice(0, 1),
    gateway: { ...exampleNode.gateway, addresses: exampleNode.gateway.addresses.slice(0, 1) },
  },
};

function settingsOf(environment: NodeEnvironment): readonly string[] {
  let wanted: readonly string[] = [];
  const wantSettings = (entries: ReadonlyMap<string, string>): number => {
    wanted = Array.from(entries, ([key, value]) => `${key}=${value}`).toSorted();
    return 0;
  };
  wantHostSettings(environment, { interfaces: [] }, { wantSettings });
  return wanted;
}

describe('kernel settings of a node', () => {
  it('are set again after every change of the node that they depend on', () => {
    for (const before of Object.values(environments))
      for (const after of Object.values(environments))
        if (settingsOf(before).join() !== settingsOf(after).join()) expect(settingsInput(after)).not.toBe(settingsInput(before));
  });

  it('include those of the WireGuard device only while the node has it', () => {
    const ofDevice = (environment: NodeEnvironment) => settingsOf(environment).filter((text) => text.includes('antrea-wg0'));
    expect(ofDevice(environments['encryption'] ?? exampleNode)).toEqual([
      expect.stringContaining('forwarding=1'),
      expect.stringContaining('rp_filter=0'),
    ]);
    expect(ofDevice(exampleNode)).toEqual([]);
  });
});
