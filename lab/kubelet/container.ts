import { pause } from '../../src/base/async/pause.ts';
import { within } from '../../src/base/async/time-limit.ts';
import { SeineError } from '../../src/base/errors/seine-error.ts';
import { parseIp } from '../../src/base/net/ip.ts';
import { inNetns } from '../machine/netns.ts';
import { runAnyway } from '../machine/process.ts';
import { Responder } from '../probe/responder.ts';
import { connectTcpIn } from '../probe/sockets.ts';
import { ContainerProcess } from './container-process.ts';
import type { ContainerSpec, ProbeSpec, RestartPolicy } from './pod-spec.ts';
import type { ContainerState } from './pod-status.ts';

const retryMs = 500;

interface ContainerOptions {
  readonly spec: ContainerSpec;
  /** `namespace/name`. */
  readonly pod: string;
  readonly node: string;
  /** The pod's namespace, and the one its probes come from. */
  readonly netns: string;
  readonly nodeNetns: string;
  readonly ips: readonly string[];
  readonly restartPolicy: RestartPolicy;
  readonly env: Readonly<Record<string, string>>;
  readonly logFile: string;
  readonly changed: () => void;
}

/** A running container: its command, or the responder in place of one. */
export class Container {
  readonly #options: ContainerOptions;
  readonly #stopping = new AbortController();
  readonly #process: ContainerProcess | undefined;
  readonly #tasks: Promise<void>[] = [];
  #responding: ContainerState['run'] = { is: 'waiting', reason: 'ContainerCreating' };
  #probed: boolean;

  constructor(options: ContainerOptions) {
    this.#options = options;
    const { spec } = options;
    this.#probed = spec.readinessProbe === undefined;
    if (spec.command !== undefined) this.#process = new ContainerProcess(options);
    else this.#tasks.push(this.#respond());
    if (spec.readinessProbe !== undefined) this.#tasks.push(this.#probe(spec.readinessProbe));
  }

  get state(): ContainerState {
    const { name, image } = this.#options.spec;
    const run = this.#process?.run ?? this.#responding;
    return { name, image, restarts: this.#process?.restarts ?? 0, ready: run.is === 'running' && this.#probed, run };
  }

  /**
   * Stops it. Its preStop sleep comes first, during which it continues to serve and is probed.
   *
   * @param atOnce ends that sleep
   */
  async stop(graceSeconds: number, atOnce: AbortSignal): Promise<void> {
    const sleepSeconds = Math.min(this.#options.spec.lifecycle?.preStop?.sleep?.seconds ?? 0, graceSeconds);
    if (sleepSeconds > 0) await pause(sleepSeconds * 1000, atOnce);
    this.#stopping.abort();
    await Promise.all([this.#process?.stop(graceSeconds - sleepSeconds), ...this.#tasks]);
  }

  /** Retries until the ports are free: those of a pod that is ending are still in use. */
  async #respond(): Promise<void> {
    const { spec, pod, node, netns, ips, changed } = this.#options;
    const ports = spec.ports.flatMap(({ protocol, containerPort }) =>
      protocol === 'SCTP' ? [] : [{ protocol: protocol === 'TCP' ? ('tcp' as const) : ('udp' as const), port: containerPort }],
    );
    const wildcards = ips.map((ip) => (parseIp(ip).family === 'ipv4' ? '0.0.0.0' : '::'));
    const addresses = { tcp: [...new Set(wildcards)], udp: ips };
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      try {
        const responder = await Responder.start({ pod, node }, netns, addresses, ports, signal);
        this.#responding = { is: 'running', startedAt: new Date().toISOString() };
        changed();
        await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
        responder.close();
      } catch (error) {
        this.#responding = {
          is: 'waiting',
          reason: 'CreateContainerError',
          message: SeineError.from(error, 'start the responder').message,
        };
        changed();
        await pause(retryMs, signal);
      }
    }
  }

  async #probe(probe: ProbeSpec): Promise<void> {
    const { signal } = this.#stopping;
    await pause(probe.initialDelaySeconds * 1_000, signal);
    while (!signal.aborted) {
      const passes = await this.#passes(probe, within(signal, probe.timeoutSeconds * 1000));
      if (passes !== this.#probed) {
        this.#probed = passes;
        this.#options.changed();
      }
      await pause(probe.periodSeconds * 1_000, signal);
    }
  }

  /** Probes as the kubelet does: commands inside the pod, connections from the node. */
  async #passes(probe: ProbeSpec, signal: AbortSignal): Promise<boolean> {
    const { spec, netns, nodeNetns, ips, env } = this.#options;
    try {
      if (probe.exec) {
        const [program = 'true', ...args] = probe.exec.command;
        const inside = inNetns(netns, program, args);
        return (await runAnyway(inside.command, inside.args, { env }, signal)).code === 0;
      }
      if (!probe.tcpSocket) return true;
      const { port } = probe.tcpSocket;
      const number = typeof port === 'number' ? port : spec.ports.find(({ name }) => name === port)?.containerPort;
      (await connectTcpIn(nodeNetns, ips[0] ?? '', number ?? 0, signal)).destroy();
      return true;
    } catch {
      // Refused, unreachable, too slow, no such program: each is "not ready".
      return false;
    }
  }
}
