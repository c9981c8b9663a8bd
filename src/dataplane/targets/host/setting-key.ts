import type { SysctlName } from '../../../netlink/sysctl.ts';

/**
 * Name of a kernel setting with slashes, `net/ipv4/ip_forward`, because interface names may contain dots; or the checksum offload of a tap,
 * see `tapChecksumKey`.
 */
export type SettingKey = string & { readonly brand: 'SettingKey' };

export function settingKey(name: SysctlName): SettingKey {
  return name.join('/') as SettingKey;
}

const tapForm = /^ethtool\/([^/]+)\/tx-checksumming$/;

/**
 * Returns the key of a device's transmit checksum offload. It matters for devices that ovs-vswitchd has opened as taps. A version of OVS
 * that reads virtio-net headers turns the offload on, and the setting outlives the process with the device; a version that does not would
 * then forward frames without checksums. The device shows which kind of version has opened it.
 */
export function tapChecksumKey(device: string): SettingKey {
  return `ethtool/${device}/tx-checksumming` as SettingKey;
}

/** Returns the device of such a setting; undefined for other settings. */
export function tapOfSetting(key: SettingKey): string | undefined {
  return tapForm.exec(key)?.[1];
}

/** Returns the name for messages: as in sysctl(8) where no part contains a dot; in the words of ethtool(8) for a tap. */
export function settingText(key: SettingKey): string {
  const tap = tapOfSetting(key);
  if (tap !== undefined) return `tx-checksumming of ${tap}`;
  return /\./.test(key) ? key : key.replaceAll('/', '.');
}
