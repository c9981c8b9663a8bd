import { join } from 'node:path';
import { labPaths, type NodePaths, netnsFolder, nodePaths } from '../plan/names.ts';
import type { LabPlan } from '../plan/plan.ts';

/** Folder for data too large for memory, as `/run` is: images and the file systems of containers. A folder per lab, by its id. */
export const bulkFolder = '/var/lib/seine-lab';

/** containerd's folder of pod namespaces, below its state: a mount there is visible to the agent as well. */
const netnsBelowState = 'io.containerd.grpc.v1.cri/netns';

/** Default folders of plugins and their configuration in every runtime. */
export const cniPlaces = { bin: '/opt/cni/bin', conf: '/etc/cni/net.d' } as const;

/** Files of the control plane. */
export interface ControlPlanePaths {
  readonly dir: string;
  readonly etcd: string;
  readonly pki: string;
  /** The API server's audit policy: recorded requests, and the users. */
  readonly auditPolicy: string;
  readonly auditLog: string;
  pidFile(program: string): string;
  logFile(program: string): string;
  kubeconfig(user: string): string;
}

export function controlPlanePaths(labDir: string): ControlPlanePaths {
  const dir = join(labPaths(labDir).apiServer, 'control-plane');
  return {
    dir,
    etcd: join(dir, 'etcd'),
    pki: join(dir, 'pki'),
    auditPolicy: join(dir, 'audit-policy.json'),
    auditLog: join(dir, 'audit.log'),
    pidFile: (program) => join(dir, `${program}.pid`),
    logFile: (program) => join(dir, `${program}.log`),
    kubeconfig: (user) => join(dir, `${user}.kubeconfig`),
  };
}

/** Files of one node's kubelet and runtime. */
export interface RuntimePaths {
  readonly dir: string;
  /** Images and file systems of containers. */
  readonly containerd: string;
  readonly kubelet: string;
  readonly state: string;
  readonly netns: string;
  readonly staticPods: string;
  readonly containerdConfig: string;
  readonly kubeletConfig: string;
  readonly resolvConf: string;
  readonly script: string;
  /** libcni's cache of the pods' networks, one file per attachment. */
  readonly attachments: string;
  /** Folders that have a fixed place on a node: that place, and the folder which is mounted there. */
  readonly places: readonly (readonly [place: string, folder: string])[];
  pidFile(program: string): string;
  logFile(program: string): string;
}

export function runtimePaths(plan: Pick<LabPlan, 'dir' | 'id' | 'bare'>, node: string): RuntimePaths {
  const ofNode = nodePaths(plan.dir, node);
  const dir = join(ofNode.dir, 'kubernetes');
  const bulk = join(bulkFolder, plan.id, node);
  const state = join(dir, 'state');
  const cni = join(dir, 'cni');
  const kubelet = join(bulk, 'kubelet');
  return {
    dir,
    containerd: join(bulk, 'containerd'),
    kubelet,
    state,
    netns: plan.bare ? join(dir, 'netns') : join(state, netnsBelowState),
    staticPods: join(dir, 'manifests'),
    containerdConfig: join(dir, 'containerd.toml'),
    kubeletConfig: join(dir, 'kubelet.yaml'),
    resolvConf: join(dir, 'resolv.conf'),
    script: join(dir, 'mounts'),
    attachments: join(cni, 'results'),
    places: [
      ['/var/lib/kubelet', kubelet],
      ['/run/containerd', join(dir, 'run-containerd')],
      ['/run/runc', join(dir, 'run-runc')],
      ['/var/lib/cni', cni],
      ['/var/log/pods', join(dir, 'pod-logs')],
      ['/var/log/containers', join(dir, 'container-logs')],
      ...(plan.bare ? installedPlaces(ofNode, dir) : []),
    ],
    pidFile: (program) => join(dir, `${program}.pid`),
    logFile: (program) => join(dir, `${program}.log`),
  };
}

/**
 * Places of an installed network's files on a node, from its manifest. The agent's socket is at the same place as that of the lab's own
 * agents.
 */
function installedPlaces(node: NodePaths, dir: string): (readonly [place: string, folder: string])[] {
  return [
    [netnsFolder, join(dir, 'netns')],
    [cniPlaces.conf, node.cniConfFolder],
    [cniPlaces.bin, node.cniBinFolder],
    ['/run/openvswitch', join(dir, 'run-openvswitch')],
    ['/var/lib/openvswitch', node.ovs],
    ['/run/seine', node.run],
    ['/var/lib/seine', node.stateDir],
  ];
}
