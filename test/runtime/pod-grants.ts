import { chmodSync, existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { DaemonSet } from 'kubernetes-types/apps/v1.d.ts';
import type { ConfigMap, Container, PodSpec, Probe, SecurityContext, Volume } from 'kubernetes-types/core/v1.d.ts';
import type { NodePlace } from './node-place.ts';

export interface PodSurroundings {
  readonly nodeName: string;
  /** ConfigMaps of the cluster, by name. */
  readonly configMaps: readonly ConfigMap[];
  /** Files that a kubelet adds to a pod with a service account. */
  readonly account: { readonly token: string; readonly caPem: string; readonly namespace: string };
  /** Address of the API server's Service, from the kubelet. */
  readonly apiService: { readonly host: string; readonly port: number };
  /** Variables by which the lab finds its processes; they grant nothing. */
  readonly env: Readonly<Record<string, string>>;
  readonly cgroupParent: string;
}

/** A path of the node in a container. */
export interface GrantedMount {
  readonly source: string;
  readonly target: string;
  readonly readOnly: boolean;
  /** True if later mounts of the node below it appear in the container. */
  readonly hostToContainer: boolean;
}

export interface GrantedSecurity {
  readonly noNewPrivileges: boolean;
  readonly readOnlyRoot: boolean;
  readonly user: number;
  readonly dropped: readonly string[];
  readonly added: readonly string[];
  /** Value of the manifest; undefined leaves it to the runtime, and every runtime applies its default profile. */
  readonly appArmor: 'RuntimeDefault' | 'Unconfined' | undefined;
}

/** A container of the manifest with all its permissions, independent of the runtime. Its seccomp profile is the runtime's default. */
export interface GrantedContainer {
  readonly name: string;
  readonly image: string;
  /** Empty for the image's own. */
  readonly command: readonly string[];
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly mounts: readonly GrantedMount[];
  readonly security: GrantedSecurity;
}

const accountPath = '/var/run/secrets/kubernetes.io/serviceaccount';

/** Permissions of a DaemonSet's pod on a node, as a kubelet reads the manifest. An unknown field is an error, so that none is forgotten. */
export class PodGrants {
  /** Unique on the host, valid as a container's name and a folder's. */
  readonly prefix: string;
  readonly hostPid: boolean;
  readonly graceSeconds: number;
  readonly #spec: PodSpec;
  readonly #place: NodePlace;
  readonly #around: PodSurroundings;

  constructor(daemonSet: DaemonSet, place: NodePlace, around: PodSurroundings) {
    const spec = daemonSet.spec?.template.spec;
    if (spec === undefined) throw new Error('a DaemonSet without pods');
    refuseUnknownOfPod(spec);
    this.#spec = spec;
    this.#place = place;
    this.#around = around;
    this.prefix = `${around.cgroupParent.slice(1)}-${around.nodeName}-${daemonSet.metadata?.name}`;
    this.hostPid = spec.hostPID === true;
    this.graceSeconds = spec.terminationGracePeriodSeconds ?? 30;
  }

  /** Creates on the node what their volumes need. */
  initContainers(): readonly GrantedContainer[] {
    return (this.#spec.initContainers ?? []).map((container) => this.#granted(container));
  }

  /** Like `initContainers`. */
  containers(): readonly GrantedContainer[] {
    return this.#spec.containers.map((container) => this.#granted(container));
  }

  get containerNames(): readonly string[] {
    return this.#spec.containers.map(({ name }) => name);
  }

  /**
   * Runs a probe of a container as a kubelet does.
   *
   * @param exec runs a command in the container. @throws SeineError with the probe's output
   */
  async probe(
    name: string,
    which: 'livenessProbe' | 'readinessProbe',
    exec: (command: readonly string[]) => Promise<string>,
    signal: AbortSignal,
  ): Promise<string> {
    const probe: Probe | undefined = this.#spec.containers.find((container) => container.name === name)?.[which];
    if (probe?.exec?.command) return await exec(probe.exec.command);
    if (probe?.httpGet === undefined) throw new Error(`${name} has no ${which}`);
    const { host, port, path } = probe.httpGet;
    return await this.#place.run('curl', ['--silent', '--show-error', '--fail-with-body', `http://${host}:${port}${path}`], signal);
  }

  #granted(container: Container): GrantedContainer {
    const { name, image, imagePullPolicy, command = [], args = [], env = [], securityContext, volumeMounts = [], ...rest } = container;
    const known = new Set(['resources', 'livenessProbe', 'readinessProbe', 'startupProbe', 'terminationMessagePolicy']);
    refuseUnknown(`container ${name}`, Object.keys(rest), known);
    if (image === undefined || imagePullPolicy === 'Always') throw new Error(`${name}: no image that is here`);
    const mounts = volumeMounts.map(({ name: volume, mountPath, readOnly = false, mountPropagation, ...others }) => {
      refuseUnknown(`mount ${volume}`, Object.keys(others), new Set());
      return { source: this.#source(volume), target: mountPath, readOnly, hostToContainer: mountPropagation === 'HostToContainer' };
    });
    const variables = env.map(({ name: key, value, valueFrom }) => {
      const found = valueFrom?.fieldRef?.fieldPath === 'spec.nodeName' ? this.#around.nodeName : value;
      if (found === undefined) throw new Error(`${name}: variable ${key} cannot be had`);
      return [key, found] as const;
    });
    return {
      name,
      image,
      command,
      args,
      env: { ...Object.fromEntries(variables), ...this.#kubeletVariables() },
      mounts: [...mounts, ...this.#accountMount()],
      security: securityOf(securityContext),
    };
  }

  #kubeletVariables(): Readonly<Record<string, string>> {
    const { apiService, env } = this.#around;
    return { KUBERNETES_SERVICE_HOST: apiService.host, KUBERNETES_SERVICE_PORT: String(apiService.port), ...env };
  }

  #accountMount(): readonly GrantedMount[] {
    if (this.#spec.automountServiceAccountToken === false) return [];
    const { token, caPem, namespace } = this.#around.account;
    const source = this.#folder('account', { token, 'ca.crt': caPem, namespace }, 0o644);
    return [{ source, target: accountPath, readOnly: true, hostToContainer: false }];
  }

  /** Path of a volume on the node. */
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
    const folder = join(this.#place.folder, this.prefix, name);
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true });
    for (const [file, text] of Object.entries(files)) {
      writeFileSync(join(folder, file), text);
      chmodSync(join(folder, file), mode);
    }
    return folder;
  }
}

function refuseUnknownOfPod(spec: PodSpec): void {
  const known = 'hostNetwork hostPID initContainers containers volumes automountServiceAccountToken serviceAccountName'.split(' ');
  const ofScheduling = 'affinity priorityClassName tolerations nodeSelector dnsPolicy terminationGracePeriodSeconds'.split(' ');
  refuseUnknown('pod', Object.keys(spec), new Set([...known, ...ofScheduling]));
  if (spec.hostNetwork !== true) throw new Error('a pod network for the pod network');
}

function securityOf(context: SecurityContext | undefined): GrantedSecurity {
  const { privileged, capabilities, seccompProfile, seLinuxOptions, appArmorProfile, ...others } = context ?? {};
  const { allowPrivilegeEscalation, readOnlyRootFilesystem = false, runAsUser = 0, ...rest } = others;
  refuseUnknown('securityContext', Object.keys(rest), new Set());
  if (privileged !== false || seccompProfile?.type !== 'RuntimeDefault') throw new Error('more than capabilities is granted');
  if (seLinuxOptions !== undefined && Object.keys(seLinuxOptions).join() !== 'type') throw new Error('unknown SELinux options');
  return {
    noNewPrivileges: allowPrivilegeEscalation === false,
    readOnlyRoot: readOnlyRootFilesystem,
    user: runAsUser,
    dropped: capabilities?.drop ?? [],
    added: capabilities?.add ?? [],
    appArmor: appArmorOf(appArmorProfile?.type),
  };
}

function appArmorOf(type: string | undefined): GrantedSecurity['appArmor'] {
  if (type !== undefined && type !== 'RuntimeDefault' && type !== 'Unconfined') throw new Error(`AppArmor’s profile ${type} is on no node`);
  return type;
}

function refuseUnknown(where: string, found: readonly string[], known: ReadonlySet<string>): void {
  const unknown = found.filter((name) => !known.has(name));
  if (unknown.length > 0) throw new Error(`${where}: this test does not know ${unknown.join(', ')}`);
}
