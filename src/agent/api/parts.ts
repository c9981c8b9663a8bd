import type { BridgeKey, BridgeValue } from '../../datapath/bridge-entry.ts';
import type { FirewallKey } from '../../datapath/firewall-target.ts';
import { type HostEntry, type HostKey, sameHostEntry } from '../../datapath/host-entry.ts';
import type { NodeDatapath } from '../../datapath/node-datapath.ts';
import { type SwitchEntry, type SwitchKey, sameSwitchEntry } from '../../datapath/switch-entry.ts';
import type { Part } from './compare.ts';

/** The four parts of a node, ready to be compared. */
export interface Parts {
  readonly bridge: Part<BridgeKey, BridgeValue>;
  readonly switch: Part<SwitchKey, SwitchEntry>;
  readonly host: Part<HostKey, HostEntry>;
  readonly firewall: Part<FirewallKey, string>;
}

const equalStrings = (a: string, b: string): boolean => a === b;

export function partsOf(datapath: NodeDatapath): Parts {
  const { reconcilers } = datapath;
  return {
    bridge: { desired: datapath.bridge, reconciler: reconcilers.bridge, equal: equalStrings },
    switch: { desired: datapath.switch, reconciler: reconcilers.switch, equal: sameSwitchEntry },
    host: { desired: datapath.host, reconciler: reconcilers.host, equal: sameHostEntry },
    firewall: { desired: datapath.firewall, reconciler: reconcilers.firewall, equal: equalStrings },
  };
}
