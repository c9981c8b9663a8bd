import { stringify } from 'yaml';
import { addressing, type LabPlan } from '../plan/plan.ts';
import { cgroupOf } from './cgroups.ts';
import { serviceAddress } from './control-plane-arguments.ts';
import type { RuntimePaths } from './paths.ts';

/** The socket of the runtime, within the node's own mounts. */
export const runtimeSocket = '/run/containerd/containerd.sock';
/** Address of containerd's metrics, on the loopback of the node. */
export const runtimeMetrics = '127.0.0.1:1338';

/** Settings that a kubelet writes for the whole host, and the values that it requires: it gets its own files with them. */
const machineSettings: Readonly<Record<string, string>> = {
  'vm/overcommit_memory': '1',
  'vm/panic_on_oom': '0',
  'kernel/panic': '10',
  'kernel/panic_on_oops': '1',
  'kernel/keys/root_maxkeys': '1000000',
  'kernel/keys/root_maxbytes': '25000000',
};

interface ContainerdChoices {
  readonly paths: RuntimePaths;
  readonly pauseImage: string;
  readonly pluginFolders: readonly string[];
  readonly confFolder: string;
  /** True if the namespaces of pods are mounted below the state of containerd, false for the usual folder. */
  readonly netnsBelowState: boolean;
}

/**
 * containerd's configuration, version 3. Strings are JSON's, which are valid in TOML. NRI's socket has one path on the host: the second
 * node would fail on it.
 */
export function containerdConfig({ paths, pauseImage, pluginFolders, confFolder, netnsBelowState }: ContainerdChoices): string {
  const text = (value: string | readonly string[]) => JSON.stringify(value);
  return `version = 3
root = ${text(paths.containerd)}
state = ${text(paths.state)}

[grpc]
  address = ${text(runtimeSocket)}

[metrics]
  address = ${text(runtimeMetrics)}

[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true
  disable_apparmor = true
  netns_mounts_under_state_dir = ${netnsBelowState}
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ${text(pluginFolders)}
    conf_dir = ${text(confFolder)}

[plugins.'io.containerd.nri.v1.nri']
  disable = true

[plugins.'io.containerd.cri.v1.images']
  snapshotter = "overlayfs"
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = ${text(pauseImage)}
`;
}

/** A KubeletConfiguration. Disks and images are the host's, so eviction and image collection are disabled. */
export function kubeletConfig(plan: LabPlan, node: string, paths: RuntimePaths, clientCaFile: string): string {
  return stringify({
    apiVersion: 'kubelet.config.k8s.io/v1beta1',
    kind: 'KubeletConfiguration',
    failCgroupV1: false,
    cgroupDriver: 'cgroupfs',
    cgroupRoot: `/${cgroupOf(plan.id, node)}`,
    cgroupsPerQOS: true,
    enforceNodeAllocatable: [],
    authentication: { anonymous: { enabled: false }, webhook: { enabled: true }, x509: { clientCAFile: clientCaFile } },
    authorization: { mode: 'Webhook' },
    containerRuntimeEndpoint: `unix://${runtimeSocket}`,
    failSwapOn: false,
    makeIPTablesUtilChains: false,
    clusterDNS: serviceAddress(plan, 10n).slice(0, 1),
    clusterDomain: 'cluster.local',
    resolvConf: paths.resolvConf,
    staticPodPath: paths.staticPods,
    evictionHard: { 'memory.available': '50Mi', 'nodefs.available': '0%', 'imagefs.available': '0%', 'nodefs.inodesFree': '0%' },
    imageGCHighThresholdPercent: 100,
    imageMaximumGCAge: '0s',
    nodeStatusUpdateFrequency: '5s',
    maxPods: 250,
    serializeImagePulls: false,
    shutdownGracePeriod: '0s',
  });
}

/** Arguments of a node's kubelet. */
export function kubeletArguments(plan: LabPlan, node: LabPlan['nodes'][number], paths: RuntimePaths, kubeconfig: string): string[] {
  const zone = plan.nodes.indexOf(node) % 2 === 0 ? 'a' : 'b';
  return [
    `--config=${paths.kubeletConfig}`,
    `--kubeconfig=${kubeconfig}`,
    `--hostname-override=${node.name}`,
    `--node-ip=${node.ips.join(',')}`,
    '--root-dir=/var/lib/kubelet',
    `--node-labels=topology.kubernetes.io/zone=${zone}`,
    '--v=2',
  ];
}

/** A resolver in the outside network, where nothing answers: CoreDNS forwards nothing. */
export function resolvConf({ families }: LabPlan): string {
  return `${families.map((family) => `nameserver ${addressing.outside[family]}`).join('\n')}\n`;
}

/**
 * Creates the mounts of a node, in a mount namespace of its own, and then stays there for others to enter. All mounts there end with the
 * last process, except the namespaces of pods: the agent opens them by the same path, from outside.
 *
 * Mounts of the host at those places are removed from the node: containerd reads the first mount of a path, not the uppermost.
 *
 * @param shared mounts that stay as they are for the host, with all below them
 */
export function mountScript(paths: RuntimePaths, shared: readonly string[]): string {
  const settings = Object.entries(machineSettings).map(([name, value]) => {
    const file = `${paths.dir}/settings/${name.replaceAll('/', '.')}`;
    return `echo ${value} > '${file}'; [ ! -e /proc/sys/${name} ] || mount --bind '${file}' /proc/sys/${name}`;
  });
  return `set -eu
while read -r _ _ _ _ at _; do
  at=$(printf '%b' "$at")
  case $at in '${paths.netns}'${shared.map((place) => `|'${place}'|'${place}'/*`).join('')}) ;; *) mount --make-private "$at" 2>/dev/null || true ;; esac
done < /proc/self/mountinfo
mkdir -p '${paths.dir}/settings'
${paths.places.map(([place, folder]) => `mkdir -p ${place} '${folder}'; while mountpoint -q ${place}; do umount -l ${place}; done; mount --bind '${folder}' ${place}`).join('\n')}
${sharedPlaces(paths)
  .map((place) => `mount --make-shared ${place}`)
  .join('\n')}
${settings.join('\n')}
touch '${paths.dir}/mounted'
exec sleep infinity
`;
}

/**
 * Places where later mounts are visible in containers that have them: volumes; the namespace that the plugin creates for an installed
 * agent.
 */
function sharedPlaces({ places }: RuntimePaths): readonly string[] {
  return places.map(([place]) => place).filter((place) => ['/var/lib/kubelet', '/run/seine'].includes(place));
}
