import { chmodSync, existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { DaemonSet } from 'kubernetes-types/apps/v1.d.ts';
import type { ConfigMap, Container, PodSpec, SecurityContext, Volume } from 'kubernetes-types/core/v1.d.ts';
import { podmanEnvironment, podmanOptions } from './image-builder.ts';
import type { NodePlace } from './node-place.ts';

export interface PodSurroundings {
  readonly nodeName: string;
  /** Of the cluster, by name. */
  readonly configMaps: readonly ConfigMap[];
  /** What a kubelet puts into a pod with a service account. */
  readonly account: { readonly token: string; readonly caPem: string; readonly namespace: string };
  /** What a kubelet says of the API server: its Service. */
  readonly apiService: { readonly host: string; readonly port: number };
  /** For what the lab finds its processes by; grants nothing. */
  readonly env: Readonly<Record<string, string>>;
  readonly cgroupParent: string;
}

const accountPath = '/var/run/secrets/kubernetes.io/serviceaccount';

/**
 * A pod of a DaemonSet, run by podman as a kubelet would have it run: what the manifest grants is granted, and everything else is
 * withheld. A field of the manifest that this does not know is an error, so that none is forgotten.
 */
export class DaemonSetPod {
  readonly #spec: PodSpec;
  readonly #place: NodePlace;
  readonly #around: PodSurroundings;
  readonly #prefix: string;

  constructor(daemonSet: DaemonSet, place: NodePlace, around: PodSurroundings) {
    const spec = daemonSet.spec?.template.spec;
    if (spec === undefined) throw new Error('a DaemonSet without pods');
    this.#spec = spec;
    this.#place = place;
    this.#around = around;
    this.#prefix = `${around.cgroupParent.slice(1)}-${around.nodeName}-${daemonSet.metadata?.name}`;
  }

  /** Init containers one after another, each to its end, then the others. */
  async start(signal: AbortSignal): Promise<void> {
    for (const container of this.#spec.initContainers ?? []) {
      await this.#podman(['run', '--rm', ...this.#arguments(container)], signal);
    }
    for (const container of this.#spec.containers) await this.#podman(['run', '--detach', ...this.#arguments(container)], signal);
  }

  async stop(signal: AbortSignal): Promise<void> {
    const seconds = String(this.#spec.terminationGracePeriodSeconds ?? 30);
    for (const { name } of this.#spec.containers) await this.#podman(['rm', '--force', '--time', seconds, this.#nameOf(name)], signal);
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

  /** Runs the probes of a container as a kubelet does. @throws SeineError with what the probe said */
  async probe(name: string, which: 'livenessProbe' | 'readinessProbe', signal: AbortSignal): Promise<string> {
    const probe = this.#spec.containers.find((container) => container.name === name)?.[which];
    if (probe?.exec?.command) return await this.exec(name, probe.exec.command, signal);
    if (probe?.httpGet === undefined) throw new Error(`${name} has no ${which}`);
    const { host, port, path } = probe.httpGet;
    return await this.#place.run('curl', ['--silent', '--show-error', '--fail-with-body', `http://${host}:${port}${path}`], signal);
  }

  #nameOf(container: string): string {
    return `${this.#prefix}-${container}`;
  }

  async #podman(args: readonly string[], signal: AbortSignal): Promise<string> {
    return await this.#place.run('podman', [...podmanOptions, ...args], signal, podmanEnvironment);
  }

  #arguments(container: Container): string[] {
    const { name, image, imagePullPolicy, command = [], args = [], env = [], securityContext, volumeMounts = [], ...rest } = container;
    const known = new Set(['resources', 'livenessProbe', 'readinessProbe', 'startupProbe']);
    refuseUnknown(`container ${name}`, Object.keys(rest), known);
    if (image === undefined || imagePullPolicy === 'Always') throw new Error(`${name}: no image that is here`);
    const mounts = volumeMounts.map(({ name: volume, mountPath, readOnly, mountPropagation, ...others }) => {
      refuseUnknown(`mount ${volume}`, Object.keys(others), new Set());
      const options = [readOnly ? 'ro' : 'rw', mountPropagation === 'HostToContainer' ? 'rslave' : 'rprivate'];
      return `${this.#source(volume)}:${mountPath}:${options.join()}`;
    });
    const variables = env.map(({ name: key, value, valueFrom }) => {
      const found = valueFrom?.fieldRef?.fieldPath === 'spec.nodeName' ? this.#around.nodeName : value;
      if (found === undefined) throw new Error(`${name}: variable ${key} cannot be had`);
      return `${key}=${found}`;
    });
    return [
      ...['--name', this.#nameOf(name), '--pull', 'never', '--cgroup-parent', this.#around.cgroupParent],
      ...this.#podArguments(),
      ...securityArguments(securityContext),
      ...[...mounts, ...this.#accountMount()].flatMap((mount) => ['--volume', mount]),
      ...[...variables, ...this.#variables()].flatMap((variable) => ['--env', variable]),
      ...(command[0] === undefined ? [] : ['--entrypoint', JSON.stringify(command)]),
      image,
      ...args,
    ];
  }

  #podArguments(): string[] {
    const known = 'hostNetwork hostPID initContainers containers volumes automountServiceAccountToken serviceAccountName'.split(' ');
    const ofScheduling = 'priorityClassName tolerations nodeSelector dnsPolicy terminationGracePeriodSeconds'.split(' ');
    refuseUnknown('pod', Object.keys(this.#spec), new Set([...known, ...ofScheduling]));
    if (this.#spec.hostNetwork !== true) throw new Error('a pod network for the pod network');
    return ['--network', 'host', ...(this.#spec.hostPID ? ['--pid', 'host'] : [])];
  }

  #variables(): string[] {
    const { apiService, env } = this.#around;
    const kubelet = { KUBERNETES_SERVICE_HOST: apiService.host, KUBERNETES_SERVICE_PORT: String(apiService.port) };
    return Object.entries({ ...kubelet, ...env }).map(([key, value]) => `${key}=${value}`);
  }

  #accountMount(): string[] {
    if (this.#spec.automountServiceAccountToken === false) return [];
    const { token, caPem, namespace } = this.#around.account;
    const folder = this.#folder('account', { token, 'ca.crt': caPem, namespace }, 0o644);
    return [`${folder}:${accountPath}:ro`];
  }

  /** Where a volume is for the node. */
  #source(name: string): string {
    const volume = this.#spec.volumes?.find((each) => each.name === name);
    if (volume?.hostPath) return this.#hostPath(volume.hostPath);
    if (volume?.configMap) return this.#configMap(volume.configMap);
    if (volume?.emptyDir) return this.#folder(`empty-${name}`, {}, 0o644);
    throw new Error(`volume ${name}: no path of the node, no ConfigMap, and not empty`);
  }

  #hostPath({ path, type }: NonNullable<Volume['hostPath']>): string {
    const here = this.#place.path(path);
    if (type === 'DirectoryOrCreate') mkdirSync(here, { recursive: true, mode: 0o755 });
    if (!existsSync(here)) throw new Error(`${path}: a kubelet would not start this pod`);
    return path;
  }

  #configMap({ name, items = [], defaultMode = 0o644 }: NonNullable<Volume['configMap']>): string {
    const data = this.#around.configMaps.find(({ metadata }) => metadata?.name === name)?.data ?? {};
    const files = items.map(({ key, path }) => {
      const text = data[key];
      if (text === undefined) throw new Error(`ConfigMap ${name} has no ${key}`);
      return [path, text] as const;
    });
    return this.#folder(`config-${name}`, Object.fromEntries(files), defaultMode);
  }

  #folder(name: string, files: Readonly<Record<string, string>>, mode: number): string {
    const folder = join(this.#place.folder, this.#prefix, name);
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true });
    for (const [file, text] of Object.entries(files)) {
      writeFileSync(join(folder, file), text);
      chmodSync(join(folder, file), mode);
    }
    return folder;
  }
}

function securityArguments(context: SecurityContext | undefined): string[] {
  const { privileged, allowPrivilegeEscalation, readOnlyRootFilesystem, runAsUser, capabilities, seccompProfile, seLinuxOptions, ...rest } =
    context ?? {};
  refuseUnknown('securityContext', Object.keys(rest), new Set());
  if (privileged !== false || seccompProfile?.type !== 'RuntimeDefault') throw new Error('more than capabilities is granted');
  if (seLinuxOptions !== undefined && Object.keys(seLinuxOptions).join() !== 'type') throw new Error('unknown SELinux options');
  return [
    ...(allowPrivilegeEscalation === false ? ['--security-opt', 'no-new-privileges'] : []),
    // A kubelet's runtime mounts nothing over a file system that is read-only.
    ...(readOnlyRootFilesystem ? ['--read-only', '--read-only-tmpfs=false'] : []),
    ...['--user', String(runAsUser ?? 0)],
    ...(capabilities?.drop ?? []).flatMap((name) => ['--cap-drop', name]),
    ...(capabilities?.add ?? []).flatMap((name) => ['--cap-add', name]),
  ];
}

function refuseUnknown(where: string, found: readonly string[], known: ReadonlySet<string>): void {
  const unknown = found.filter((name) => !known.has(name));
  if (unknown.length > 0) throw new Error(`${where}: this test does not know ${unknown.join(', ')}`);
}
