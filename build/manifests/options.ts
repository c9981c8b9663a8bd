import { readFileSync } from 'node:fs';
import type { PolicyMode } from '../../src/dataplane/compile/environment.ts';
import type { LeftToPools, Pool } from './pool.ts';

/** What differs from cluster to cluster; everything else of the manifest is fixed. */
export interface ManifestOptions {
  readonly agentImage: string;
  readonly ovsImage: string;
  readonly imagePullPolicy: 'Always' | 'IfNotPresent' | 'Never';
  /** Where the kubelet's runtime looks for plugins and for their configuration, on the node. */
  readonly cniBinFolder: string;
  readonly cniConfFolder: string;
  readonly dataPath: 'system' | 'netdev';
  /** Where the API server is for those who cannot use its Service yet; needed without kube-proxy. */
  readonly apiServer?: string;
  /** Further keys of the agent's configuration. */
  readonly agent: Readonly<Record<string, unknown>>;
  readonly size: ClusterSize;
  /** On all nodes, until it is changed there. */
  readonly policyMode: PolicyMode;
  /** Whose objects these are; those of all nodes that are in no pool, and of the cluster, if left out. */
  readonly pool?: Pool;
  readonly leftToPools: LeftToPools;
  /** Whether Prometheus’ operator is told where the metrics are. */
  readonly podMonitor: boolean;
}

/** What a roll-out may take, and what is asked for the containers. */
interface ClusterSize {
  /** How many nodes may be without a ready agent at a time: a number, or percents of all. */
  readonly maxUnavailable: number | string;
  readonly agentMemory: string;
  readonly agentMemoryLimit: string;
  readonly ovsMemory: string;
}

/** By what was measured: docs/performance.md has `agent.rss.*` and `svc.rss10k`. */
export const clusterSizes = {
  /** Up to some hundreds of nodes. */
  small: { maxUnavailable: 1, agentMemory: '150Mi', agentMemoryLimit: '1Gi', ovsMemory: '128Mi' },
  /** Up to thousands of nodes, or ten thousand Services: one node after the other would take days. */
  large: { maxUnavailable: '1%', agentMemory: '300Mi', agentMemoryLimit: '2Gi', ovsMemory: '200Mi' },
} as const satisfies Record<string, ClusterSize>;

const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as { version: string };

/**
 * The project has no registry yet, and a name without a host is one of docker.io's: another publisher's image would run with SYS_ADMIN. No host
 * below `.invalid` resolves (RFC 6761 section 6.4), so these names are images of this machine's own store, or are refused.
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

/** Where distributions differ from what kubeadm does; docs/installation/manifest.md has the steps. */
export const distributions: Readonly<Record<string, Partial<ManifestOptions>>> = {
  kubeadm: {},
  kind: {},
  k3s: { cniBinFolder: '/var/lib/rancher/k3s/data/cni', cniConfFolder: '/var/lib/rancher/k3s/agent/etc/cni/net.d' },
};

export const namespace = 'seine-system';
