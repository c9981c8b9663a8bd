import { createHash } from 'node:crypto';
import { realpathSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';

/** Folder of named network namespaces, for `ip netns` and `nsenter --net=`. */
export const netnsFolder = '/run/netns';

/** Maximum length of a namespace's name in bytes. Linux allows 255 for a file name; the rest is reserved for temporary files. */
const nameBytesMax = 250;

/**
 * The real path of a lab's folder, which need not exist yet: links in the existing part are resolved, so that one folder is one lab
 * whatever path names it.
 */
export function realLabDir(dir: string): string {
  const wanted = resolve(dir);
  try {
    return realpathSync(wanted);
  } catch {
    const parent = dirname(wanted);
    return parent === wanted ? wanted : join(realLabDir(parent), basename(wanted));
  }
}

/** Six hexadecimal digits of the real path of the lab's folder, in every name, which keep labs apart. */
export function labIdOf(realDir: string): string {
  return createHash('sha256').update(realDir).digest('hex').slice(0, 6);
}

/** Prefix of every namespace of a lab. */
export function netnsPrefix(labId: string): string {
  return `seine-${labId}-`;
}

export function nodeNetns(labId: string, node: string): string {
  return `${netnsPrefix(labId)}${node}`;
}

/** Namespace of the switch between the nodes, which is also the outside network. */
export function outsideNetns(labId: string): string {
  return `${netnsPrefix(labId)}external`;
}

/** The network over which nodes reach the API server. */
export function managementNetns(labId: string): string {
  return `${netnsPrefix(labId)}mgmt`;
}

export interface PodName {
  readonly node: string;
  readonly namespace: string;
  readonly name: string;
}

/**
 * The name of a pod's network namespace.
 *
 * Two pods can have one name (`a-b`/`c` and `a`/`b-c`), and a name can be too long for a file: a caller that finds the plain name in use
 * takes the distinct one, which carries a hash of both.
 */
export function podNetns(labId: string, pod: PodName, form: 'plain' | 'distinct' = 'plain'): string {
  const plain = `${netnsPrefix(labId)}${pod.node}-${pod.namespace}-${pod.name}`;
  if (form === 'plain' && plain.length <= nameBytesMax) return plain;
  const hash = createHash('sha256').update(`${pod.node}/${pod.namespace}/${pod.name}`).digest('hex').slice(0, 8);
  return `${plain.slice(0, nameBytesMax - hash.length - 1)}-${hash}`;
}

/** The name of a network namespace, a path to one, or the one this process lives in. */
export type NetnsRef = string | 'here';

/** @param name a path is returned as is: a runtime has its own folders for namespaces */
export function netnsPath(name: string): string {
  return name.startsWith('/') ? name : join(netnsFolder, name);
}

/** Files and folders of a lab. */
interface LabPaths {
  readonly dir: string;
  readonly state: string;
  readonly daemonLog: string;
  readonly daemonPid: string;
  readonly control: string;
  readonly kubeconfig: string;
  readonly apiServer: string;
  readonly nodes: string;
  readonly bin: string;
  /** Folder with one file per namespace whose links are complete. */
  readonly wired: string;
  /** Exists if the demo created the lab, which may then replace it. */
  readonly demoMark: string;
}

export function labPaths(dir: string): LabPaths {
  return {
    dir,
    state: join(dir, 'lab.json'),
    daemonLog: join(dir, 'daemon.log'),
    daemonPid: join(dir, 'daemon.pid'),
    control: join(dir, 'control.sock'),
    kubeconfig: join(dir, 'kubeconfig'),
    apiServer: join(dir, 'apiserver'),
    nodes: join(dir, 'nodes'),
    bin: join(dir, 'bin'),
    wired: join(dir, 'wired'),
    demoMark: join(dir, 'demo'),
  };
}

/** Files and folders of one node of a lab. */
export interface NodePaths {
  /** The node's run directory, which is Open vSwitch's too: `OVS_RUNDIR`. */
  readonly dir: string;
  /** Database and logs of Open vSwitch. */
  readonly ovs: string;
  readonly run: string;
  readonly cniSocket: string;
  /** Mount point of the node's namespace of pre-plugged ports. */
  readonly portsNamespace: string;
  readonly apiSocket: string;
  readonly stateDir: string;
  readonly agentConfig: string;
  readonly agentLog: string;
  readonly agentPid: string;
  readonly kubeconfig: string;
  /** Empty: the lab's runtime runs plugins from their own folders. */
  readonly cniBinFolder: string;
  readonly cniConfFolder: string;
  readonly cniConf: string;
  readonly cniConfAlone: string;
  readonly cniCache: string;
  readonly pods: string;
}

export function nodePaths(labDir: string, node: string): NodePaths {
  const dir = join(labPaths(labDir).nodes, node);
  return {
    dir,
    ovs: join(dir, 'ovs'),
    run: join(dir, 'run'),
    cniSocket: join(dir, 'run', 'cni.sock'),
    portsNamespace: join(dir, 'run', 'netns', 'ports'),
    apiSocket: join(dir, 'run', 'agent.sock'),
    stateDir: join(dir, 'state'),
    agentConfig: join(dir, 'agent.yaml'),
    agentLog: join(dir, 'agent.log'),
    agentPid: join(dir, 'agent.pid'),
    kubeconfig: join(dir, 'kubeconfig'),
    cniBinFolder: join(dir, 'cni-bin'),
    cniConfFolder: join(dir, 'net.d'),
    cniConf: join(dir, 'net.d', '10-seine.conflist'),
    cniConfAlone: join(dir, 'net.d', '20-seine-alone.conflist'),
    cniCache: join(dir, 'cni-cache'),
    pods: join(dir, 'pods'),
  };
}
