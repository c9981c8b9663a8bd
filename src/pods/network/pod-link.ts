import type { PodLink, StandingPair } from '../../dataplane/desired/pod-link.ts';
import type { LinksTarget } from '../../dataplane/targets/links/links-target.ts';
import type { AttachedPod, PodAttachment } from '../ipam/attachment.ts';
import { hostInterfaceAlias } from './attachment-names.ts';

interface LinkSettings {
  readonly hostIfName: string;
  /** MTU: size of an IP packet (bytes). */
  readonly mtu: number;
  /**
   * Type of the data path. On the userspace one the host interface stays part of the node's network stack, and no driver computes
   * checksums.
   */
  readonly datapathType: 'system' | 'netdev';
  readonly disableTxChecksumOffload: boolean;
}

/** Returns the common settings of pods' pairs and pre-plugged ports. */
export function pairSettings({
  mtu,
  ovsDatapathType,
  disableTXChecksumOffload,
}: {
  readonly mtu: number;
  readonly ovsDatapathType: 'system' | 'netdev';
  readonly disableTXChecksumOffload: boolean;
}): Pick<StandingPair, 'mtu' | 'hostEnd' | 'checksumOffload'> {
  const userspace = ovsDatapathType === 'netdev';
  return { mtu, hostEnd: userspace ? 'layer2Only' : 'plain', checksumOffload: userspace || disableTXChecksumOffload ? 'off' : 'keep' };
}

/** Returns the desired link of a pod. @param reported result of the previous attach, if the pod was attached before */
export function podLink(want: PodAttachment, settings: LinkSettings, reported: AttachedPod | undefined): PodLink {
  const { hostIfName, mtu, datapathType, disableTxChecksumOffload } = settings;
  return {
    ...pairSettings({ mtu, ovsDatapathType: datapathType, disableTXChecksumOffload: disableTxChecksumOffload }),
    hostName: hostIfName,
    netnsPath: want.netns,
    podName: want.ifName,
    mac: want.mac,
    alias: hostInterfaceAlias(want, want.pod),
    addresses: want.addresses.map(({ ip, prefixLength }) => ({ address: ip, prefixLength })),
    gateways: want.addresses.map(({ gateway }) => ({ address: gateway })),
    routes: want.routes ?? [],
    ...(reported ? { made: reported } : {}),
  };
}

/** Returns the result for the runtime, which is also stored. @param reported previous result, if the pod was attached before */
export function attachedPod(
  hostIfName: string,
  { mac, mtu }: Pick<PodAttachment, 'mac'> & { readonly mtu: number },
  made: ReturnType<LinksTarget['madeOf']>,
  reported: AttachedPod | undefined,
): AttachedPod {
  if (made === undefined) return { hostMac: mac, ...reported, hostIfName, mtu };
  const { hostMac = reported?.hostMac ?? mac, netnsCookie, routeTables } = made;
  const tables = Object.keys(routeTables).length > 0 ? { routeTables } : {};
  return { hostIfName, hostMac, mtu, ...(netnsCookie === undefined ? {} : { netnsCookie }), ...tables };
}
