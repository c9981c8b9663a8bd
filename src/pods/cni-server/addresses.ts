import { SeineError } from '../../base/errors/seine-error.ts';
import { parseIp } from '../../base/net/ip.ts';
import { parseMac } from '../../base/net/mac.ts';
import { CniError, cniCodes } from '../../cni/errors.ts';
import { toCniError } from '../../cni/from-seine-error.ts';
import { show } from '../../cni/json.ts';
import type { RequestedIp } from '../../cni/network-conf.ts';
import type { AddRequest, CheckRequest, DelRequest, GcRequest, StatusRequest } from '../../cni/request.ts';
import type { WireRequest } from '../../cni/wire.ts';
import type { HostPort } from '../../dataplane/compile/host-port.ts';
import type { AttachmentKey } from '../ipam/attachment.ts';
import type { DelegatedCall, DelegatedIpam, DelegatedNetworkCall } from '../ipam/delegated-ipam.ts';
import type { Ipam, WrittenLease } from '../ipam/ipam.ts';
import type { Lease, LeaseRequest } from '../ipam/lease.ts';
import { podMac } from '../ipam/pod-mac.ts';
import type { StageTimes } from './stages.ts';

/** Time limit for a plugin to release an address that no pod got (ms). */
const RECLAIM_MS = 30_000;

/** Call for which addresses are released; it has the configuration that a delegated plugin needs. */
export interface Caller {
  readonly request: AddRequest | CheckRequest | DelRequest | GcRequest;
  readonly wire: WireRequest;
  readonly stages: StageTimes;
}

/** ADD call with the host ports that were claimed for it. */
interface AddressCaller extends Caller {
  readonly request: AddRequest;
  readonly hostPorts: readonly HostPort[];
}

/**
 * Addresses for pods: from the agent's IPAM, or from the plugin that the configuration names. The agent's IPAM keeps the record in both
 * cases.
 */
export class AttachmentAddresses {
  readonly #ipam: Ipam;
  readonly #delegated: DelegatedIpam;

  constructor(ipam: Ipam, delegated: DelegatedIpam) {
    this.#ipam = ipam;
    this.#delegated = delegated;
  }

  /** Obtains a lease. @throws CniError 4, 7, 11, 101 or 105; then nothing is leased */
  async obtain(caller: AddressCaller, signal: AbortSignal): Promise<WrittenLease> {
    const { attachment, netns, pod, requestedIps, requestedMac, ipamType, egress, ingress, limits } = caller.request;
    try {
      const mac = requestedMac && parsed(requestedMac, parseMac);
      const addresses = requestedIps.map((ip) => parsed(ip, parseIp));
      const { hostPorts } = caller;
      const limited = {
        ...(egress ? { egress } : {}),
        ...(ingress ? { ingress } : {}),
        ...(limits && (egress || ingress) ? { limits } : {}),
      };
      const ports = { ...limited, ...(hostPorts.length > 0 ? { hostPorts } : {}) };
      const more = { ...(pod ? { pod } : {}), ...(mac ? { mac } : {}), ...ports };
      const wanted = { ...attachment, netns, addresses, ...more };
      if (ipamType === undefined) return await this.#ipam.allocate(wanted, signal);
      const lease = await this.#delegate(wanted, delegatedCall(attachment, ipamType, caller), signal);
      return { lease, durable: Promise.resolve() };
    } catch (thrown) {
      throw toCniError(withField(thrown, caller.request), 'addresses');
    }
  }

  /**
   * Releases the addresses of a detached attachment. A delegated plugin is called even if no lease is known, because it may have one.
   *
   * @throws CniError 105; the lease stays then, for the next attempt
   */
  async release(key: AttachmentKey, caller: Caller, signal: AbortSignal): Promise<void> {
    const ipamType = this.#ipam.leaseOf(key)?.ipamType ?? caller.request.ipamType;
    if (ipamType !== undefined) await this.#delegated.del(delegatedCall(key, ipamType, caller), signal);
    this.#ipam.release(key);
  }

  /** Checks a lease. @throws CniError 105 if the delegated plugin reports a problem */
  async check(lease: Lease, caller: Caller, signal: AbortSignal): Promise<void> {
    if (lease.ipamType !== undefined) await this.#delegated.check(delegatedCall(lease, lease.ipamType, caller), signal);
  }

  /** Checks that addresses are available. @throws CniError 50 if the delegated plugin has no free address, with the plugin's message */
  async status(request: StatusRequest, wire: WireRequest, signal: AbortSignal): Promise<void> {
    if (request.ipamType === undefined) return;
    try {
      await this.#delegated.status(networkCall(request.ipamType, request, wire), signal);
    } catch (thrown) {
      const { message, details } = toCniError(thrown, 'addresses');
      throw new CniError(cniCodes.notAvailable, message, details);
    }
  }

  /** Makes the delegated plugin release what the runtime's list does not contain. @throws CniError 105 */
  async collectGarbage(request: GcRequest, wire: WireRequest, signal: AbortSignal): Promise<void> {
    if (request.ipamType !== undefined) await this.#delegated.gc(networkCall(request.ipamType, request, wire), signal);
  }

  async #delegate(wanted: LeaseRequest, call: DelegatedCall, signal: AbortSignal): Promise<Lease> {
    const { network, containerId, ifName, netns, pod, egress, ingress, limits, hostPorts } = wanted;
    try {
      const { addresses, routes, dns } = await this.#delegated.add(call, signal);
      const mac = wanted.mac ?? podMac(wanted, (taken) => this.#ipam.hasMac(taken));
      return await this.#ipam.adopt({
        network,
        containerId,
        ifName,
        netns,
        addresses,
        mac,
        ipamType: call.ipamType,
        ...(pod ? { pod } : {}),
        ...(egress ? { egress } : {}),
        ...(ingress ? { ingress } : {}),
        ...(limits ? { limits } : {}),
        ...(hostPorts ? { hostPorts } : {}),
        ...(routes.length > 0 ? { routes } : {}),
        ...(Object.keys(dns).length > 0 ? { dns } : {}),
      });
    } catch (thrown) {
      this.#ipam.release(wanted);
      // A plugin that failed by itself has undone its work. One that was killed, or whose result cannot be used, has not.
      await this.#delegated.del(call, AbortSignal.timeout(RECLAIM_MS)).catch(() => undefined);
      throw thrown;
    }
  }
}

/** Parses a requested address. @throws CniError 4 or 7 that names field and value */
function parsed<T>({ text, field }: RequestedIp, parse: (text: string) => T): T {
  try {
    return parse(text);
  } catch {
    const code = field.startsWith('CNI_ARGS') ? cniCodes.invalidEnvironment : cniCodes.invalidConfig;
    throw new CniError(code, `${field}: ${show(text)} is not ${parse === parseMac ? 'a MAC' : 'an IP'} address`);
  }
}

/** Adds the field to an error: the IPAM does not know which field requested the address. */
function withField(thrown: unknown, { requestedIps, requestedMac }: AddRequest): unknown {
  if (!(thrown instanceof SeineError)) return thrown;
  const { asked, ip } = thrown.context;
  const culprit = asked === 'mac' ? requestedMac : asked === 'ip' ? requestedIps.find(({ text }) => parseIp(text).text === ip) : undefined;
  if (!culprit) return thrown;
  const message = `${culprit.field}: ${thrown.rawMessage}`;
  if (thrown.code === 'INVALID_INPUT' && culprit.field.startsWith('CNI_ARGS')) return new CniError(cniCodes.invalidEnvironment, message);
  return new SeineError(thrown.code, message, { context: thrown.context, cause: thrown });
}

/** Makes the call of a delegated plugin. The namespace of a DEL may be gone, and GC has none; an IPAM plugin does not use it. */
function delegatedCall(key: AttachmentKey, ipamType: string, { request, wire }: Caller): DelegatedCall {
  const { network, containerId, ifName } = key;
  return {
    ...networkCall(ipamType, request, wire),
    network,
    containerId,
    ifName,
    netns: wire.env.CNI_NETNS ?? '',
    args: wire.env.CNI_ARGS ?? '',
  };
}

function networkCall(
  ipamType: string,
  { cniVersion }: Pick<StatusRequest, 'cniVersion'>,
  { env, conf }: WireRequest,
): DelegatedNetworkCall {
  return { ipamType, cniVersion, pluginFolders: (env.CNI_PATH ?? '').split(':').filter((folder) => folder.startsWith('/')), conf };
}
