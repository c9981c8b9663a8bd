import { GrpcChannel } from './grpc.ts';
import type { GrantedContainer, GrantedSecurity } from './pod-grants.ts';
import { message, type Received, text, textMap, texts, whole } from './protobuf.ts';

/** Field numbers here are those of `runtime.v1` in Kubernetes' `cri-api`, `api.proto`. */
const runtime = 'runtime.v1.RuntimeService';

const protocols = { tcp: 0, udp: 1, sctp: 2 } as const;

export interface PublishedPort {
  readonly protocol: keyof typeof protocols;
  readonly containerPort: number;
  readonly hostPort: number;
}

/** What a kubelet says of a pod. */
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
  /** Empty: the image's own. */
  readonly command: readonly string[];
  /** What a manifest grants it; a container without is what the runtime makes of no wishes at all. */
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

/** What a kubelet uses of a container runtime. Every call is one request to a real runtime. */
export class CriClient {
  readonly #channel: GrpcChannel;

  /** @param socket path of the runtime's socket */
  constructor(socket: string) {
    this.#channel = new GrpcChannel(socket);
  }

  close(): void {
    this.#channel.close();
  }

  /** Name and version of the runtime. */
  async version(signal: AbortSignal): Promise<{ readonly name: string; readonly version: string }> {
    const answer = await this.#call('Version', text(1, 'v1'), signal);
    return { name: answer.text(2), version: answer.text(3) };
  }

  async conditions(signal: AbortSignal): Promise<readonly Condition[]> {
    const answer = await this.#call('Status', whole(1, 0), signal);
    return answer
      .message(1)
      .messages(1)
      .map((one) => ({ type: one.text(1), holds: one.whole(2) === 1, says: `${one.text(3)} ${one.text(4)}`.trim() }));
  }

  async hasImage(image: string, signal: AbortSignal): Promise<boolean> {
    const answer = await this.#channel.call('runtime.v1.ImageService/ImageStatus', message(1, text(1, image)), signal);
    return answer.messages(1).length > 0;
  }

  /** @returns the sandbox's id, which is CNI's container id */
  async runSandbox(config: SandboxConfig, signal: AbortSignal): Promise<string> {
    return (await this.#call('RunPodSandbox', message(1, ...sandboxFields(config)), signal)).text(1);
  }

  async stopSandbox(id: string, signal: AbortSignal): Promise<void> {
    await this.#call('StopPodSandbox', text(1, id), signal);
  }

  async removeSandbox(id: string, signal: AbortSignal): Promise<void> {
    await this.#call('RemovePodSandbox', text(1, id), signal);
  }

  async sandboxStatus(id: string, signal: AbortSignal): Promise<SandboxStatus> {
    const status = (await this.#call('PodSandboxStatus', text(1, id), signal)).message(1);
    const network = status.message(5);
    const ips = [network.text(1), ...network.messages(2).map((more) => more.text(1))];
    return { ready: status.whole(3) === 0, ips: ips.filter((ip) => ip !== '') };
  }

  /** Ids of all sandboxes, running or not. */
  async sandboxes(signal: AbortSignal): Promise<readonly string[]> {
    return (await this.#call('ListPodSandbox', text(1, ''), signal)).messages(1).map((sandbox) => sandbox.text(1));
  }

  /** Creates and starts a container in a sandbox. @returns its id */
  async startContainer(sandbox: { id: string; config: SandboxConfig }, container: ContainerConfig, signal: AbortSignal): Promise<string> {
    const config = containerFields(container, sandbox.config);
    const request = [text(1, sandbox.id), message(2, ...config), message(3, ...sandboxFields(sandbox.config))];
    const id = (await this.#call('CreateContainer', Buffer.concat(request), signal)).text(1);
    await this.#call('StartContainer', text(1, id), signal);
    return id;
  }

  /** Ends a container and takes it away; its sandbox stays. @param graceSeconds after which it is killed */
  async removeContainer(id: string, graceSeconds: number, signal: AbortSignal): Promise<void> {
    await this.#call('StopContainer', Buffer.concat([text(1, id), whole(2, graceSeconds)]), signal);
    await this.#call('RemoveContainer', text(1, id), signal);
  }

  async containerStatus(id: string, signal: AbortSignal): Promise<ContainerStatus> {
    const status = (await this.#call('ContainerStatus', text(1, id), signal)).message(1);
    return { state: containerStates[status.whole(3)] ?? 'unknown', exitCode: status.whole(7) };
  }

  /** Runs a command in a container to its end. @param timeoutSeconds after which the runtime kills it */
  async exec(containerId: string, command: readonly string[], timeoutSeconds: number, signal: AbortSignal): Promise<Execution> {
    const request = Buffer.concat([text(1, containerId), texts(2, command), whole(3, timeoutSeconds)]);
    const answer = await this.#call('ExecSync', request, signal);
    return { stdout: answer.text(1), stderr: answer.text(2), exitCode: answer.whole(3) };
  }

  #call(method: string, request: Uint8Array, signal: AbortSignal): Promise<Received> {
    return this.#channel.call(`${runtime}/${method}`, request, signal);
  }
}

function sandboxFields(config: SandboxConfig): readonly Uint8Array[] {
  const ports = (config.ports ?? []).map((port) =>
    message(5, whole(1, protocols[port.protocol]), whole(2, port.containerPort), whole(3, port.hostPort)),
  );
  const { ofNode } = config;
  return [
    message(1, text(1, config.name), text(2, config.uid), text(3, config.namespace)),
    // A pod in the node's network has the node's name.
    text(2, ofNode === undefined ? config.name : ''),
    text(3, config.logFolder ?? ''),
    ...ports,
    textMap(7, config.annotations ?? {}),
    message(8, text(1, config.cgroupParent), ...(ofNode === undefined ? [] : [message(2, namespaces(1, ofNode), message(9))])),
  ];
}

function containerFields(container: ContainerConfig, sandbox: SandboxConfig): readonly Uint8Array[] {
  const { name, image, command, granted } = container;
  const fields = [message(1, text(1, name)), message(2, text(1, image)), texts(3, command)];
  if (granted === undefined) return fields;
  const environment = Object.entries(granted.env).map(([key, value]) => message(6, text(1, key), text(2, value)));
  const mounts = granted.mounts.map(({ source, target, readOnly, hostToContainer }) =>
    message(7, text(1, target), text(2, source), whole(3, Number(readOnly)), whole(5, Number(hostToContainer))),
  );
  const log = sandbox.logFolder === undefined ? '' : `${name}.log`;
  const security = securityFields(granted.security, sandbox.ofNode);
  return [...fields, texts(4, granted.args), ...environment, ...mounts, text(11, log), message(15, message(2, ...security))];
}

/** As a kubelet fills them in from a container's `securityContext`; seccomp is the runtime's default. */
function securityFields(security: GrantedSecurity, ofNode: SandboxConfig['ofNode']): readonly Uint8Array[] {
  const { noNewPrivileges, readOnlyRoot, user, dropped, added, appArmor } = security;
  return [
    message(1, texts(1, added), texts(2, dropped)),
    ...(ofNode === undefined ? [] : [namespaces(3, ofNode)]),
    message(5, whole(1, user)),
    whole(7, Number(readOnlyRoot)),
    whole(11, Number(noNewPrivileges)),
    texts(13, maskedPaths),
    texts(14, readOnlyPaths),
    message(15),
    ...(appArmor === undefined ? [] : [message(16, whole(1, appArmorTypes[appArmor]))]),
  ];
}

/** NamespaceOption: 0 is the pod's own namespace, 1 the container's, 2 the node's. */
const namespaces = (number: number, { hostPid }: { readonly hostPid: boolean }): Uint8Array =>
  message(number, whole(1, 2), whole(2, hostPid ? 2 : 1));

const appArmorTypes = { RuntimeDefault: 0, Unconfined: 1 } as const;
const containerStates = ['created', 'running', 'exited', 'unknown'] as const;

/** What a kubelet has hidden and protected unless `procMount` says otherwise. */
const maskedPaths = [
  ...['/proc/acpi', '/proc/asound', '/proc/kcore', '/proc/keys', '/proc/latency_stats', '/proc/timer_list', '/proc/timer_stats'],
  ...['/proc/sched_debug', '/proc/scsi', '/sys/firmware'],
];
const readOnlyPaths = ['/proc/bus', '/proc/fs', '/proc/irq', '/proc/sys', '/proc/sysrq-trigger'];
