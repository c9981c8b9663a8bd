/** What differs from cluster to cluster; everything else of the manifest is fixed. */
export interface ManifestOptions {
  readonly agentImage: string;
  readonly ovsImage: string;
  readonly imagePullPolicy: 'Always' | 'IfNotPresent' | 'Never';
  /** Where the kubelet's runtime looks for plugins and for their configuration, on the node. */
  readonly cniBinFolder: string;
  readonly cniConfFolder: string;
  /** `netdev` forwards in ovs-vswitchd itself and needs no kernel module; for trying things out. */
  readonly dataPath: 'system' | 'netdev';
  /** Where the API server is for those who cannot use its Service yet; needed without kube-proxy. */
  readonly apiServer?: string;
  /** Further keys of the agent's configuration. */
  readonly agent: Readonly<Record<string, unknown>>;
}

export const defaultOptions: ManifestOptions = {
  agentImage: 'seine/agent:0.1.0',
  ovsImage: 'seine/ovs:0.1.0',
  imagePullPolicy: 'IfNotPresent',
  cniBinFolder: '/opt/cni/bin',
  cniConfFolder: '/etc/cni/net.d',
  dataPath: 'system',
  agent: {},
};

/** Where distributions differ from what kubeadm does; docs/install.md has the steps. */
export const distributions: Readonly<Record<string, Partial<ManifestOptions>>> = {
  kubeadm: {},
  kind: {},
  k3s: { cniBinFolder: '/var/lib/rancher/k3s/data/cni', cniConfFolder: '/var/lib/rancher/k3s/agent/etc/cni/net.d' },
};

export const namespace = 'seine-system';
