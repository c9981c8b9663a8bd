import { type CniArgs, parseCniArgs } from './cni-args.ts';
import { checkEnvironment, type Environment, parseCommand } from './environment.ts';
import { CniError, cniCodes } from './errors.ts';
import { asList, isObject, type JsonObject, member, show } from './json.ts';
import {
  type AddConf,
  type NetworkConf,
  type PluginSettings,
  parseAddConf,
  parseIpamType,
  parseNetworkConf,
  type RequestedIp,
  withoutLength,
} from './network-conf.ts';
import { hasOwnKey } from './own-key.ts';
import { type CniResult, parseResult } from './result.ts';
import type { CniCommand, CniVersion } from './versions.ts';

/** One interface of one container on one network. */
export interface Attachment {
  readonly network: string;
  readonly containerId: string;
  readonly ifName: string;
}

/** Name of the pod from kubelet; absent unless complete and well-formed. */
interface CniPod {
  readonly namespace: string;
  readonly name: string;
  /** Empty if not given. */
  readonly uid: string;
}

interface WithConf {
  readonly cniVersion: CniVersion;
  readonly network: string;
  readonly settings: PluginSettings;
  /** Absent: the agent's own IPAM. */
  readonly ipamType?: string;
}

interface WithAttachment extends WithConf {
  readonly attachment: Attachment;
}

export interface AddRequest extends WithAttachment, Omit<AddConf, 'ips' | 'mac' | 'ipamType'> {
  readonly command: 'ADD';
  readonly netns: string;
  readonly pod?: CniPod;
  /** Unchanged, not yet checked to be addresses. */
  readonly requestedIps: readonly RequestedIp[];
  readonly requestedMac?: RequestedIp;
  /** Present unless Seine is the first plugin of the chain. */
  readonly prevResult?: CniResult;
}

export interface CheckRequest extends WithAttachment {
  readonly command: 'CHECK';
  readonly netns: string;
  readonly prevResult: CniResult;
}

export interface DelRequest extends WithAttachment {
  readonly command: 'DEL';
}

export interface StatusRequest extends WithConf {
  readonly command: 'STATUS';
}

export interface GcRequest extends WithConf {
  readonly command: 'GC';
  /** Attachments of this network that are not listed are removed. */
  readonly validAttachments: readonly Pick<Attachment, 'containerId' | 'ifName'>[];
}

interface VersionRequest {
  readonly command: 'VERSION';
}

export type CniRequest = AddRequest | CheckRequest | DelRequest | StatusRequest | GcRequest | VersionRequest;

/**
 * Call of a runtime, validated and narrowed. DEL is read leniently: fields that it does not need cannot make it fail.
 *
 * @param stdin ignored for VERSION
 * @throws CniError 1, 2, 4, 6 or 7
 */
export function parseCniRequest(env: Environment, stdin: string): CniRequest {
  const command = parseCommand(env);
  if (command === 'VERSION') return { command };
  checkEnvironment(env, command);
  return parseConfigured(command, env, parseNetworkConf(stdin, command));
}

function parseConfigured(command: Exclude<CniCommand, 'VERSION'>, env: Environment, conf: NetworkConf): CniRequest {
  switch (command) {
    case 'ADD':
      return parseAdd(env, conf);
    case 'CHECK':
      return parseCheck(env, conf);
    case 'DEL':
      return { command, ...withAttachment(env, conf) };
    case 'STATUS':
      return { command, ...withConf(conf) };
    case 'GC':
      return { command, ...withConf(conf), validAttachments: parseValidAttachments(conf.json) };
  }
}

function withConf({ cniVersion, network, settings, json }: NetworkConf): WithConf {
  const ipamType = parseIpamType(json);
  return { cniVersion, network, settings, ...(ipamType === undefined ? {} : { ipamType }) };
}

function withAttachment(env: Environment, conf: NetworkConf): WithAttachment {
  return {
    ...withConf(conf),
    attachment: { network: conf.network, containerId: env.CNI_CONTAINERID ?? '', ifName: env.CNI_IFNAME ?? '' },
  };
}

function parseAdd(env: Environment, conf: NetworkConf): AddRequest {
  const args = parseCniArgs(env.CNI_ARGS ?? '');
  const { ips, mac, ...rest } = parseAddConf(conf.json);
  const previous = member(conf.json, 'prevResult');
  const pod = podOf(args);
  const requestedMac = mac ?? (args.mac ? { text: args.mac, field: 'CNI_ARGS: MAC' } : undefined);
  return {
    command: 'ADD',
    ...withAttachment(env, conf),
    ...rest,
    netns: env.CNI_NETNS ?? '',
    ...(pod === undefined ? {} : { pod }),
    requestedIps: ips.length > 0 ? ips : ipsInArgs(args),
    ...(requestedMac === undefined ? {} : { requestedMac }),
    ...(previous === undefined ? {} : { prevResult: parseResult(previous, conf.cniVersion) }),
  };
}

function parseCheck(env: Environment, conf: NetworkConf): CheckRequest {
  parseCniArgs(env.CNI_ARGS ?? '');
  const previous = member(conf.json, 'prevResult');
  if (previous === undefined) throw new CniError(cniCodes.invalidConfig, 'prevResult: missing; CHECK compares with the result of ADD');
  return {
    command: 'CHECK',
    ...withAttachment(env, conf),
    netns: env.CNI_NETNS ?? '',
    prevResult: parseResult(previous, conf.cniVersion),
  };
}

/** Parses one address, or one of each family separated by a comma. */
function ipsInArgs({ ip = '' }: CniArgs): readonly RequestedIp[] {
  return ip === '' ? [] : ip.split(',').map((text) => ({ text: withoutLength(text.trim()), field: 'CNI_ARGS: IP' }));
}

/**
 * podman sends only K8S_POD_NAME, which is not a Kubernetes pod.
 *
 * @throws CniError 4 if namespace and name are given and are not valid names in Kubernetes
 */
function podOf({ podNamespace = '', podName = '', podUid = '' }: CniArgs): CniPod | undefined {
  if (podNamespace === '' || podName === '') return undefined;
  checkName('K8S_POD_NAMESPACE', podNamespace, /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/);
  checkName('K8S_POD_NAME', podName, /^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/);
  checkName('K8S_POD_UID', podUid, /^[-a-zA-Z0-9]{0,64}$/);
  return { namespace: podNamespace, name: podName, uid: podUid };
}

function checkName(key: string, value: string, pattern: RegExp): void {
  if (!pattern.test(value)) throw new CniError(cniCodes.invalidEnvironment, `CNI_ARGS: ${key}: ${show(value)} is not a name of Kubernetes`);
}

/** An absent list is refused and not read as an empty one, which would remove every attachment. Go writes an empty list as `null`. */
function parseValidAttachments(json: JsonObject): GcRequest['validAttachments'] {
  const key = 'cni.dev/valid-attachments';
  if (!hasOwnKey(json, key)) throw new CniError(cniCodes.invalidConfig, `${key}: missing`);
  return asList(member(json, key), key).map((entry, at) => {
    const containerId = isObject(entry) ? member(entry, 'containerID') : undefined;
    const ifName = isObject(entry) ? member(entry, 'ifname') : undefined;
    if (typeof containerId === 'string' && typeof ifName === 'string') return { containerId, ifName };
    throw new CniError(cniCodes.invalidConfig, `${key}[${at}]: ${show(entry)} has no containerID and ifname`);
  });
}
