import type { SysctlName } from '../../../netlink/sysctl.ts';

/** The name of a kernel setting with slashes, `net/ipv4/ip_forward`: names of interfaces have dots. Or what a tap is asked: `tapChecksumKey`. */
export type SettingKey = string & { readonly brand: 'SettingKey' };

export function settingKey(name: SysctlName): SettingKey {
  return name.join('/') as SettingKey;
}

const tapForm = /^ethtool\/([^/]+)\/tx-checksumming$/;

/**
 * Whether what the node sends by this interface has its checksums. Wanted of what ovs-vswitchd has opened as a tap: a version that takes
 * along what is left to be done on a frame (virtio-net's header) turns the offload on, it outlives that process with the device, and a
 * version that does not sends such frames on as they are. The device says which of them has it.
 */
export function tapChecksumKey(device: string): SettingKey {
  return `ethtool/${device}/tx-checksumming` as SettingKey;
}

/** The device that a setting of this kind is of; undefined for others. */
export function tapOfSetting(key: SettingKey): string | undefined {
  return tapForm.exec(key)?.[1];
}

/** As sysctl(8) has it where no part has a dot, and takes it in any case; what ethtool(8) has it in its words. */
export function settingText(key: SettingKey): string {
  const tap = tapOfSetting(key);
  if (tap !== undefined) return `tx-checksumming of ${tap}`;
  return /\./.test(key) ? key : key.replaceAll('/', '.');
}
