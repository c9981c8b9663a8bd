import { GrpcChannel } from './grpc.ts';
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
}

export interface ContainerConfig {
  readonly name: string;
  readonly image: string;
  readonly command: readonly string[];
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
    const config = [message(1, text(1, container.name)), message(2, text(1, container.image)), texts(3, container.command)];
    const request = [text(1, sandbox.id), message(2, ...config), message(3, ...sandboxFields(sandbox.config))];
    const id = (await this.#call('CreateContainer', Buffer.concat(request), signal)).text(1);
    await this.#call('StartContainer', text(1, id), signal);
    return id;
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
  return [
    message(1, text(1, config.name), text(2, config.uid), text(3, config.namespace)),
    text(2, config.name),
    ...ports,
    textMap(7, config.annotations ?? {}),
    message(8, text(1, config.cgroupParent)),
  ];
}
