import type { BridgeKey, BridgeValue } from '../../../dataplane/targets/bridge/bridge-entry.ts';
import type { FirewallKey } from '../../../dataplane/targets/host/firewall-target.ts';
import { type HostEntry, type HostKey, sameHostEntry } from '../../../dataplane/targets/host/host-entry.ts';
import type { SettingKey } from '../../../dataplane/targets/host/setting-key.ts';
import { type LinkEntry, type LinkKey, sameLinkEntry } from '../../../dataplane/targets/links/link-entry.ts';
import type { NodeState } from '../../../dataplane/targets/node-state.ts';
import { type SwitchEntry, type SwitchKey, sameSwitchEntry } from '../../../dataplane/targets/switch/switch-entry.ts';
import { sameWireGuardEntry, type WireGuardEntry, type WireGuardKey } from '../../../dataplane/targets/wireguard/wireguard-entry.ts';
import type { ReconciledTarget } from './compare.ts';

/** Targets of a node, ready to be compared. */
export interface Parts {
  readonly bridge: ReconciledTarget<BridgeKey, BridgeValue>;
  readonly switch: ReconciledTarget<SwitchKey, SwitchEntry>;
  readonly host: ReconciledTarget<HostKey, HostEntry>;
  readonly firewall: ReconciledTarget<FirewallKey, string>;
  readonly settings: ReconciledTarget<SettingKey, string>;
  readonly links: ReconciledTarget<LinkKey, LinkEntry>;
  readonly wireguard: ReconciledTarget<WireGuardKey, WireGuardEntry>;
}

const equalStrings = (a: string, b: string): boolean => a === b;

export function partsOf(datapath: NodeState): Parts {
  const { reconcilers } = datapath;
  return {
    bridge: { desired: datapath.bridge, reconciler: reconcilers.bridge, equal: equalStrings },
    switch: { desired: datapath.switch, reconciler: reconcilers.switch, equal: sameSwitchEntry },
    host: { desired: datapath.host, reconciler: reconcilers.host, equal: sameHostEntry },
    firewall: { desired: datapath.firewall, reconciler: reconcilers.firewall, equal: equalStrings },
    settings: { desired: datapath.settings, reconciler: reconcilers.settings, equal: equalStrings },
    links: { desired: datapath.links, reconciler: reconcilers.links, equal: sameLinkEntry },
    wireguard: { desired: datapath.wireguard, reconciler: reconcilers.wireguard, equal: sameWireGuardEntry },
  };
}
