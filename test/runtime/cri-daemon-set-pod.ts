import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { DaemonSet } from 'kubernetes-types/apps/v1.d.ts';
import { until } from '../support/converge-lab.ts';
import type { CriClient, SandboxConfig } from './cri.ts';
import type { NodePlace } from './node-place.ts';
import { type GrantedContainer, PodGrants, type PodSurroundings } from './pod-grants.ts';

const initMs = 60_000;
const execSeconds = 300;

/**
 * A pod of a DaemonSet, requested from a runtime as by a kubelet. Unlike podman's (`DaemonSetPod`) its containers have the profiles of the
 * runtime that nodes really have, AppArmor's too.
 */
export class CriDaemonSetPod {
  readonly #grants: PodGrants;
  readonly #place: NodePlace;
  readonly #cri: CriClient;
  readonly #config: SandboxConfig;
  #sandbox: string | undefined;
  readonly #ids = new Map<string, string>();

  /** @param uid of the pod; static pods' are not UUIDs */
  constructor(daemonSet: DaemonSet, place: NodePlace, around: PodSurroundings, cri: CriClient) {
    this.#grants = new PodGrants(daemonSet, place, around);
    this.#place = place;
    this.#cri = cri;
    const name = daemonSet.metadata?.name ?? '';
    const logFolder = join(place.folder, this.#grants.prefix, 'logs');
    const { hostPid } = this.#grants;
    this.#config = { namespace: 'seine-system', name, uid: name, cgroupParent: around.cgroupParent, ofNode: { hostPid }, logFolder };
  }

  /** Runs init containers one after another, each to its end, then starts the others. */
  async start(signal: AbortSignal): Promise<void> {
    mkdirSync(this.#config.logFolder ?? '', { recursive: true });
    this.#sandbox ??= await this.#cri.runSandbox(this.#config, signal);
    for (const container of this.#grants.initContainers()) await this.#runToEnd(container, signal);
    for (const container of this.#grants.containers()) this.#ids.set(container.name, await this.#startContainer(container, signal));
  }

  /** Stops its containers; `start` starts new ones in the same sandbox, as a kubelet does. */
  async stop(signal: AbortSignal): Promise<void> {
    for (const id of this.#ids.values()) await this.#cri.removeContainer(id, this.#grants.graceSeconds, signal);
    this.#ids.clear();
  }

  /** @throws Error with the command's output, if its exit code is not 0 */
  async exec(container: string, command: readonly string[], signal: AbortSignal): Promise<string> {
    const { exitCode, stdout, stderr } = await this.#cri.exec(this.#idOf(container), command, execSeconds, signal);
    if (exitCode !== 0) throw new Error(`${command.join(' ')} in ${container}: exit code ${exitCode}: ${stderr || stdout}`);
    return stdout;
  }

  /** Output of a container of this name, init containers too, since the pod began. */
  logs(container: string): string {
    const file = join(this.#config.logFolder ?? '', `${container}.log`);
    if (!existsSync(file)) return '';
    // CRI's format: time, stream, whether the line is complete, the line.
    return readFileSync(file, 'utf8').replaceAll(/^\S+ \S+ [FP] /gm, '');
  }

  async isRunning(container: string, signal: AbortSignal): Promise<boolean> {
    return (await this.#cri.containerStatus(this.#idOf(container), signal)).state === 'running';
  }

  /** Runs the probes of a container as a kubelet does. @throws Error with the probe's output */
  async probe(name: string, which: 'livenessProbe' | 'readinessProbe', signal: AbortSignal): Promise<string> {
    return await this.#grants.probe(name, which, (command) => this.exec(name, command, signal), signal);
  }

  /** The node, for processes outside of containers. */
  get place(): NodePlace {
    return this.#place;
  }

  #idOf(container: string): string {
    const id = this.#ids.get(container);
    if (id === undefined) throw new Error(`no container ${container}`);
    return id;
  }

  async #startContainer(container: GrantedContainer, signal: AbortSignal): Promise<string> {
    const { name, image, command, ...granted } = container;
    const sandbox = { id: this.#sandbox ?? '', config: this.#config };
    return await this.#cri.startContainer(sandbox, { name, image, command, granted }, signal);
  }

  async #runToEnd(container: GrantedContainer, signal: AbortSignal): Promise<void> {
    const id = await this.#startContainer(container, signal);
    let exitCode = 0;
    const hasEnded = async () => {
      const status = await this.#cri.containerStatus(id, signal);
      exitCode = status.exitCode;
      return status.state === 'exited';
    };
    await until(hasEnded, initMs, () => `${container.name} does not end: ${this.logs(container.name)}`);
    await this.#cri.removeContainer(id, 0, signal);
    if (exitCode !== 0) throw new Error(`${container.name}: exit code ${exitCode}: ${this.logs(container.name)}`);
  }
}
