import { join } from 'node:path';
import { z } from 'zod';
import { GrpcChannel } from './grpc.ts';
import type { GrantedContainer, GrantedSecurity } from './pod-grants.ts';

const definitions = join(import.meta.dirname, 'cri.proto');

export interface PublishedPort {
  readonly protocol: 'tcp' | 'udp' | 'sctp';
  readonly containerPort: number;
  readonly hostPort: number;
}

/** A kubelet's description of a pod. */
export interface SandboxConfig {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly ports?: readonly PublishedPort[];
  readonly annotations?: Readonly<Record<string, string>>;
  readonly cgroupParent: string;
  /** In the node's network, and for `hostPid` among its processes. */
  readonly ofNode?: { readonly hostPid: boolean };
  /** Folder of the node for the logs of its containers. */
  readonly logFolder?: string;
}

export interface ContainerConfig {
  readonly name: string;
  readonly image: string;
  /** Empty for the image's own. */
  readonly command: readonly string[];
  /** Permissions from a manifest; without them, a container has the runtime's defaults. */
  readonly granted?: Omit<GrantedContainer, 'name' | 'image' | 'command'>;
}

export interface ContainerStatus {
  readonly state: 'created' | 'running' | 'exited' | 'unknown';
  readonly exitCode: number;
}

export interface SandboxStatus {
  readonly ready: boolean;
  readonly ips: readonly string[];
}

export interface Execution {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

export interface Condition {
  readonly type: string;
  readonly holds: boolean;
  readonly says: string;
}

const text = z.string();
const sandboxId = z.object({ podSandboxId: text });
const containerId = z.object({ containerId: text });
const nothing = z.object({});
const condition = z.object({ type: text, status: z.boolean(), reason: text, message: text });
/** An absent message is null. */
const network = z.object({ ip: text, additionalIps: z.array(z.object({ ip: text })) }).nullable();
const bytes = z.instanceof(Uint8Array).transform((bytes) => Buffer.from(bytes).toString('utf8'));

const runtimeAnswers = {
  Version: z.object({ runtimeName: text, runtimeVersion: text }),
  Status: z.object({ status: z.object({ conditions: z.array(condition) }) }),
  RunPodSandbox: sandboxId,
  StopPodSandbox: nothing,
  RemovePodSandbox: nothing,
  PodSandboxStatus: z.object({ status: z.object({ state: text, network }) }),
  ListPodSandbox: z.object({ items: z.array(z.object({ id: text })) }),
  CreateContainer: containerId,
  StartContainer: nothing,
  StopContainer: nothing,
  RemoveContainer: nothing,
  ContainerStatus: z.object({ status: z.object({ state: text, exitCode: z.number() }) }),
  ExecSync: z.object({ stdout: bytes, stderr: bytes, exitCode: z.number() }),
} as const;
type RuntimeAnswers = typeof runtimeAnswers;

const imageStatus = z.object({ image: z.object({ id: text }).nullable() });

/** The part of a container runtime that a kubelet uses. Every call is one request to a real runtime. */
export class CriClient {
  readonly #channel: GrpcChannel;

  /** @param socket path of the runtime's socket */
  constructor(socket: string) {
    this.#channel = new GrpcChannel(socket, definitions);
  }

  close(): void {
    this.#channel.close();
  }

  /** Name and version of the runtime. */
  async version(signal: AbortSignal): Promise<{ readonly name: string; readonly version: string }> {
    const { runtimeName, runtimeVersion } = await this.#call('Version', { version: 'v1' }, signal);
    return { name: runtimeName, version: runtimeVersion };
  }

  async conditions(signal: AbortSignal): Promise<readonly Condition[]> {
    const { status } = await this.#call('Status', {}, signal);
    return status.conditions.map(({ type, status: holds, reason, message }) => ({ type, holds, says: `${reason} ${message}`.trim() }));
  }

  async hasImage(image: string, signal: AbortSignal): Promise<boolean> {
    const answer = await this.#channel.call('runtime.v1.ImageService', 'ImageStatus', { image: { image } }, signal);
    return imageStatus.parse(answer).image !== null;
  }

  /** @returns the sandbox's id, which is CNI's container id */
  async runSandbox(config: SandboxConfig, signal: AbortSignal): Promise<string> {
    return (await this.#call('RunPodSandbox', { config: sandboxMessage(config) }, signal)).podSandboxId;
  }

  async stopSandbox(id: string, signal: AbortSignal): Promise<void> {
    await this.#call('StopPodSandbox', { podSandboxId: id }, signal);
  }

  async removeSandbox(id: string, signal: AbortSignal): Promise<void> {
    await this.#call('RemovePodSandbox', { podSandboxId: id }, signal);
  }

  async sandboxStatus(id: string, signal: AbortSignal): Promise<SandboxStatus> {
    const { status } = await this.#call('PodSandboxStatus', { podSandboxId: id }, signal);
    const ips = [status.network?.ip ?? '', ...(status.network?.additionalIps ?? []).map(({ ip }) => ip)];
    return { ready: status.state === 'SANDBOX_READY', ips: ips.filter((ip) => ip !== '') };
  }

  /** Ids of all sandboxes, running or not. */
  async sandboxes(signal: AbortSignal): Promise<readonly string[]> {
    return (await this.#call('ListPodSandbox', {}, signal)).items.map(({ id }) => id);
  }

  /** Creates and starts a container in a sandbox. @returns its id */
  async startContainer(sandbox: { id: string; config: SandboxConfig }, container: ContainerConfig, signal: AbortSignal): Promise<string> {
    const config = containerMessage(container, sandbox.config);
    const request = { podSandboxId: sandbox.id, config, sandboxConfig: sandboxMessage(sandbox.config) };
    const created = await this.#call('CreateContainer', request, signal);
    await this.#call('StartContainer', { containerId: created.containerId }, signal);
    return created.containerId;
  }

  /** Stops a container and removes it; its sandbox stays. @param graceSeconds after which it is killed */
  async removeContainer(id: string, graceSeconds: number, signal: AbortSignal): Promise<void> {
    await this.#call('StopContainer', { containerId: id, timeout: graceSeconds }, signal);
    await this.#call('RemoveContainer', { containerId: id }, signal);
  }

  async containerStatus(id: string, signal: AbortSignal): Promise<ContainerStatus> {
    const { state, exitCode } = (await this.#call('ContainerStatus', { containerId: id }, signal)).status;
    const found = containerStates.find((name) => state === `CONTAINER_${name.toUpperCase()}`);
    return { state: found ?? 'unknown', exitCode };
  }

  /** Runs a command in a container to its end. @param timeoutSeconds after which the runtime kills it */
  async exec(containerId: string, command: readonly string[], timeoutSeconds: number, signal: AbortSignal): Promise<Execution> {
    return await this.#call('ExecSync', { containerId, cmd: command, timeout: timeoutSeconds }, signal);
  }

  async #call<M extends keyof RuntimeAnswers>(method: M, request: object, signal: AbortSignal): Promise<z.infer<RuntimeAnswers[M]>> {
    const answer = await this.#channel.call('runtime.v1.RuntimeService', method, request, signal);
    return runtimeAnswers[method].parse(answer) as z.infer<RuntimeAnswers[M]>;
  }
}

function sandboxMessage({
  namespace,
  name,
  uid,
  ports = [],
  annotations = {},
  cgroupParent,
  ofNode,
  logFolder = '',
}: SandboxConfig): object {
  const portMappings = ports.map(({ protocol, ...numbers }) => ({ protocol: protocol.toUpperCase(), ...numbers }));
  const securityContext = ofNode && { namespaceOptions: namespaceOptions(ofNode), seccomp: runtimeDefault };
  return {
    metadata: { name, uid, namespace },
    // A pod in the node's network has the node's name.
    hostname: ofNode === undefined ? name : '',
    logDirectory: logFolder,
    portMappings,
    annotations,
    linux: { cgroupParent, ...(securityContext && { securityContext }) },
  };
}

function containerMessage({ name, image, command, granted }: ContainerConfig, sandbox: SandboxConfig): object {
  const fields = { metadata: { name }, image: { image }, command };
  if (granted === undefined) return fields;
  const mounts = granted.mounts.map(({ source, target, readOnly, hostToContainer }) => ({
    containerPath: target,
    hostPath: source,
    readonly: readOnly,
    propagation: hostToContainer ? 'PROPAGATION_HOST_TO_CONTAINER' : 'PROPAGATION_PRIVATE',
  }));
  return {
    ...fields,
    args: granted.args,
    envs: Object.entries(granted.env).map(([key, value]) => ({ key, value })),
    mounts,
    logPath: sandbox.logFolder === undefined ? '' : `${name}.log`,
    linux: { securityContext: securityMessage(granted.security, sandbox.ofNode) },
  };
}

/** Security fields as a kubelet fills them in from a container's `securityContext`; seccomp is the runtime's default. */
function securityMessage(security: GrantedSecurity, ofNode: SandboxConfig['ofNode']): object {
  const { noNewPrivileges, readOnlyRoot, user, dropped, added, appArmor } = security;
  return {
    capabilities: { addCapabilities: added, dropCapabilities: dropped },
    ...(ofNode && { namespaceOptions: namespaceOptions(ofNode) }),
    runAsUser: { value: user },
    readonlyRootfs: readOnlyRoot,
    noNewPrivs: noNewPrivileges,
    maskedPaths,
    readonlyPaths: readOnlyPaths,
    seccomp: runtimeDefault,
    ...(appArmor && { apparmor: { profileType: appArmor } }),
  };
}

function namespaceOptions({ hostPid }: { readonly hostPid: boolean }): object {
  return { network: 'NODE', pid: hostPid ? 'NODE' : 'CONTAINER' };
}

const runtimeDefault = { profileType: 'RuntimeDefault' };
const containerStates = ['created', 'running', 'exited', 'unknown'] as const;

/** Paths that a kubelet masks and protects unless `procMount` changes it. */
const maskedPaths = [
  ...['/proc/acpi', '/proc/asound', '/proc/kcore', '/proc/keys', '/proc/latency_stats', '/proc/timer_list', '/proc/timer_stats'],
  ...['/proc/sched_debug', '/proc/scsi', '/sys/firmware'],
];
const readOnlyPaths = ['/proc/bus', '/proc/fs', '/proc/irq', '/proc/sys', '/proc/sysrq-trigger'];
