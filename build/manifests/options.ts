import { readFileSync } from 'node:fs';
import type { PolicyMode } from '../../src/dataplane/compile/environment.ts';
import type { LeftToPools, Pool } from './pool.ts';

/** Options that differ from cluster to cluster; everything else of the manifest is fixed. */
export interface ManifestOptions {
  readonly agentImage: string;
  readonly ovsImage: string;
  readonly imagePullPolicy: 'Always' | 'IfNotPresent' | 'Never';
  /** Folders in which the kubelet's runtime searches plugins and their configuration, on the node. */
  readonly cniBinFolder: string;
  readonly cniConfFolder: string;
  readonly dataPath: 'system' | 'netdev';
  /** Address of the API server for clients that cannot use its Service yet; required without kube-proxy. */
  readonly apiServer?: string;
  /** Further keys of the agent's configuration. */
  readonly agent: Readonly<Record<string, unknown>>;
  readonly size: ClusterSize;
  /** Mode of all nodes, until it is changed there. */
  readonly policyMode: PolicyMode;
  /** Pool of these objects; if omitted, they belong to the cluster and to all nodes without a pool. */
  readonly pool?: Pool;
  readonly leftToPools: LeftToPools;
  /** True to include a PodMonitor for Prometheus' operator. */
  readonly podMonitor: boolean;
}

/** Limits of a roll-out, and resource requests of the containers. */
interface ClusterSize {
  /** Maximum number of nodes without a ready agent at a time: a number, or a percentage. */
  readonly maxUnavailable: number | string;
  readonly agentMemory: string;
  readonly agentMemoryLimit: string;
  readonly ovsMemory: string;
}

/** From measurements: docs/performance.md has `agent.rss.*` and `svc.rss10k`. */
export const clusterSizes = {
  /** Up to some hundreds of nodes. */
  small: { maxUnavailable: 1, agentMemory: '150Mi', agentMemoryLimit: '1Gi', ovsMemory: '128Mi' },
  /** Up to thousands of nodes, or ten thousand Services: one node after the other would take days. */
  large: { maxUnavailable: '1%', agentMemory: '300Mi', agentMemoryLimit: '2Gi', ovsMemory: '200Mi' },
} as const satisfies Record<string, ClusterSize>;

const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as { version: string };

/**
 * The project has no registry yet, and a name without a host belongs to docker.io: another publisher's image would run with SYS_ADMIN. No
 * host below `.invalid` resolves (RFC 6761 section 6.4), so these names are images of this host's own store, or cannot be pulled.
 */
const defaultRegistry = 'seine.invalid';

export const defaultOptions: ManifestOptions = {
  agentImage: `${defaultRegistry}/agent:${version}`,
  ovsImage: `${defaultRegistry}/ovs:${version}`,
  imagePullPolicy: 'IfNotPresent',
  cniBinFolder: '/opt/cni/bin',
  cniConfFolder: '/etc/cni/net.d',
  dataPath: 'system',
  agent: {},
  size: clusterSizes.small,
  policyMode: 'enforce',
  leftToPools: { agent: [], ovs: [] },
  podMonitor: false,
};

/** Differences of distributions from kubeadm; docs/installation/manifest.md has the steps. */
export const distributions: Readonly<Record<string, Partial<ManifestOptions>>> = {
  kubeadm: {},
  kind: {},
  k3s: { cniBinFolder: '/var/lib/rancher/k3s/data/cni', cniConfFolder: '/var/lib/rancher/k3s/agent/etc/cni/net.d' },
};

export const namespace = 'seine-system';
