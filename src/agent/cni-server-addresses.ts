import { toCniError } from '../cni/from-seine-error.ts';
import type { AddRequest, CheckRequest, DelRequest, GcRequest } from '../cni/request.ts';
import type { WireRequest } from '../cni/wire.ts';
import { parseIp } from '../net/ip.ts';
import { parseMac } from '../net/mac.ts';
import type { StageTimes } from './cni-server-stages.ts';
import type { DelegatedCall, DelegatedIpam } from './ipam/delegated-ipam.ts';
import type { Ipam } from './ipam/ipam.ts';
import type { Lease, LeaseRequest } from './ipam/lease.ts';
import { podMac } from './ipam/pod-mac.ts';
import type { AttachmentKey } from './pod-network-port.ts';

/** The call on whose behalf addresses are given back: it has the configuration a delegated plugin needs. */
export interface Caller {
  readonly request: AddRequest | CheckRequest | DelRequest | GcRequest;
  readonly wire: WireRequest;
  readonly stages: StageTimes;
}

/** Addresses for pods: from our own IPAM, or from the plugin that the configuration names, with our IPAM keeping the record. */
export class Addresses {
  readonly #ipam: Ipam;
  readonly #delegated: DelegatedIpam;

  constructor(ipam: Ipam, delegated: DelegatedIpam) {
    this.#ipam = ipam;
    this.#delegated = delegated;
  }

  /** @throws CniError 7, 11, 101 or 105; then nothing is leased */
  async obtain(caller: Caller & { readonly request: AddRequest }, signal: AbortSignal): Promise<Lease> {
    const { attachment, netns, pod, requestedIps, requestedMac, ipamType } = caller.request;
    try {
      const mac = requestedMac === undefined || requestedMac === '' ? undefined : parseMac(requestedMac);
      const wanted = { ...attachment, netns, addresses: requestedIps.map(parseIp), ...(pod ? { pod } : {}), ...(mac ? { mac } : {}) };
      if (ipamType === undefined) return await this.#ipam.allocate(wanted, signal);
      return await this.#delegate(wanted, delegatedCall(attachment, ipamType, caller), signal);
    } catch (thrown) {
      throw toCniError(thrown, 'addresses');
    }
  }

  /**
   * The attachment is down: its addresses are nobody's. A delegated plugin is asked even if we know nothing of a lease, as it
   * may.
   *
   * @throws CniError 105; the lease stays then, for the next try
   */
  async giveBack(key: AttachmentKey, caller: Caller, signal: AbortSignal): Promise<void> {
    const configured = 'ipamType' in caller.request ? caller.request.ipamType : undefined;
    const ipamType = this.#ipam.leaseOf(key)?.ipamType ?? configured;
    if (ipamType !== undefined) await this.#delegated.del(delegatedCall(key, ipamType, caller), signal);
    this.#ipam.release(key);
  }

  /** @throws CniError 105 if the delegated plugin finds something amiss */
  async check(lease: Lease, caller: Caller, signal: AbortSignal): Promise<void> {
    if (lease.ipamType !== undefined) await this.#delegated.check(delegatedCall(lease, lease.ipamType, caller), signal);
  }

  async #delegate(wanted: LeaseRequest, call: DelegatedCall, signal: AbortSignal): Promise<Lease> {
    const addresses = await this.#delegated.add(call, signal);
    const { network, containerId, ifName, netns, pod } = wanted;
    const mac = wanted.mac ?? podMac(wanted, (taken) => this.#ipam.hasMac(taken));
    try {
      return await this.#ipam.adopt({
        network,
        containerId,
        ifName,
        netns,
        addresses,
        mac,
        ipamType: call.ipamType,
        ...(pod ? { pod } : {}),
      });
    } catch (thrown) {
      await this.#delegated.del(call, signal);
      throw thrown;
    }
  }
}

/** DEL's namespace may be gone, and GC has none: a plugin that only lends addresses does not look at it. */
function delegatedCall(key: AttachmentKey, ipamType: string, { request, wire }: Caller): DelegatedCall {
  const { network, containerId, ifName } = key;
  return {
    network,
    containerId,
    ifName,
    ipamType,
    cniVersion: request.cniVersion,
    netns: wire.env.CNI_NETNS ?? '',
    args: wire.env.CNI_ARGS ?? '',
    pluginFolders: (wire.env.CNI_PATH ?? '').split(':').filter((folder) => folder.startsWith('/')),
    conf: wire.conf,
  };
}
