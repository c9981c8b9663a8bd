import type { DaemonSet } from 'kubernetes-types/apps/v1.d.ts';
import { podmanEnvironment, podmanOptions } from './image-builder.ts';
import type { NodePlace } from './node-place.ts';
import { type GrantedContainer, type GrantedSecurity, PodGrants, type PodSurroundings } from './pod-grants.ts';

/** A pod of a DaemonSet, run by podman as by a kubelet: it has the permissions of the manifest, and no others. */
export class DaemonSetPod {
  readonly #grants: PodGrants;
  readonly #place: NodePlace;
  readonly #cgroupParent: string;

  constructor(daemonSet: DaemonSet, place: NodePlace, around: PodSurroundings) {
    this.#grants = new PodGrants(daemonSet, place, around);
    this.#place = place;
    this.#cgroupParent = around.cgroupParent;
  }

  /** Runs init containers one after another, each to its end, then starts the others. */
  async start(signal: AbortSignal): Promise<void> {
    for (const container of this.#grants.initContainers()) {
      await this.#podman(['run', '--rm', ...this.#arguments(container)], signal);
    }
    for (const container of this.#grants.containers()) await this.#podman(['run', '--detach', ...this.#arguments(container)], signal);
  }

  async stop(signal: AbortSignal): Promise<void> {
    const seconds = String(this.#grants.graceSeconds);
    for (const name of this.#grants.containerNames) await this.#podman(['rm', '--force', '--time', seconds, this.#nameOf(name)], signal);
  }

  async exec(container: string, command: readonly string[], signal: AbortSignal): Promise<string> {
    return await this.#podman(['exec', this.#nameOf(container), ...command], signal);
  }

  async logs(container: string, signal: AbortSignal): Promise<string> {
    return await this.#place.run(
      'sh',
      ['-c', '"$@" 2>&1', 'sh', 'podman', ...podmanOptions, 'logs', this.#nameOf(container)],
      signal,
      podmanEnvironment,
    );
  }

  async isRunning(container: string, signal: AbortSignal): Promise<boolean> {
    return (await this.#podman(['inspect', '--format', '{{.State.Running}}', this.#nameOf(container)], signal)).trim() === 'true';
  }

  /** Runs the probes of a container as a kubelet does. @throws SeineError with the probe's output */
  async probe(name: string, which: 'livenessProbe' | 'readinessProbe', signal: AbortSignal): Promise<string> {
    return await this.#grants.probe(name, which, (command) => this.exec(name, command, signal), signal);
  }

  #nameOf(container: string): string {
    return `${this.#grants.prefix}-${container}`;
  }

  async #podman(args: readonly string[], signal: AbortSignal): Promise<string> {
    return await this.#place.run('podman', [...podmanOptions, ...args], signal, podmanEnvironment);
  }

  #arguments({ name, image, command, args, env, mounts, security }: GrantedContainer): string[] {
    const volumes = mounts.map(({ source, target, readOnly, hostToContainer }) => {
      const options = [readOnly ? 'ro' : 'rw', hostToContainer ? 'rslave' : 'rprivate'];
      return `${source}:${target}:${options.join()}`;
    });
    return [
      ...['--name', this.#nameOf(name), '--pull', 'never', '--cgroup-parent', this.#cgroupParent],
      ...['--network', 'host', ...(this.#grants.hostPid ? ['--pid', 'host'] : [])],
      ...securityArguments(security),
      ...volumes.flatMap((volume) => ['--volume', volume]),
      ...Object.entries(env).flatMap(([key, value]) => ['--env', `${key}=${value}`]),
      ...(command.length === 0 ? [] : ['--entrypoint', JSON.stringify(command)]),
      image,
      ...args,
    ];
  }
}

/** AppArmor is left to podman: it has its own default profile if the host has AppArmor. */
function securityArguments({ noNewPrivileges, readOnlyRoot, user, dropped, added }: GrantedSecurity): string[] {
  return [
    ...(noNewPrivileges ? ['--security-opt', 'no-new-privileges'] : []),
    // A kubelet's runtime mounts nothing over a read-only file system.
    ...(readOnlyRoot ? ['--read-only', '--read-only-tmpfs=false'] : []),
    ...['--user', String(user)],
    ...dropped.flatMap((name) => ['--cap-drop', name]),
    ...added.flatMap((name) => ['--cap-add', name]),
  ];
}
