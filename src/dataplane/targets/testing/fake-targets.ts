import { FakeTarget } from '../../reconcile/testing/fake-target.ts';
import { type BridgeKey, type BridgeValue, neededByFlow } from '../bridge/bridge-entry.ts';
import type { FirewallKey } from '../host/firewall-target.ts';
import type { HostEntry, HostKey } from '../host/host-entry.ts';
import type { SettingKey } from '../host/setting-key.ts';
import type { LinkEntry, LinkKey } from '../links/link-entry.ts';
import type { SwitchEntry, SwitchKey } from '../switch/switch-entry.ts';
import type { WireGuardEntry, WireGuardKey } from '../wireguard/wireguard-entry.ts';

/** All targets of a node, in memory. For tests of everything above `NodeState`. */
export function fakeTargets() {
  return {
    bridge: new FakeTarget<BridgeKey, BridgeValue>(neededByFlow),
    switch: new FakeTarget<SwitchKey, SwitchEntry>(),
    host: new FakeTarget<HostKey, HostEntry>(),
    firewall: new FakeTarget<FirewallKey, string>(),
    settings: new FakeTarget<SettingKey, string>(),
    links: new FakeTarget<LinkKey, LinkEntry>(),
    wireguard: new FakeTarget<WireGuardKey, WireGuardEntry>(),
  };
}
