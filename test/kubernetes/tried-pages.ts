/** Runner of the commands below a heading. */
type Runner =
  /** Commands as written, with the names of this cluster: `Pages`. */
  | 'pages'
  /** A part of the installation's sequence, `install.test.ts`, which waits between them. */
  | 'install'
  /** `helm.test.ts` */
  | 'helm'
  /** `kubeadm.test.ts`, `kubeadm-kube-proxy.test.ts` or `kubeadm-upgrade.test.ts` */
  | 'kubeadm'
  /** `npm run test:images` */
  | 'images';

/**
 * The pages whose commands are run, by heading. A block below any other heading states on the page why no test runs it. Blocks below
 * `Uninstalling` for Helm's users are `helm`'s.
 */
export const triedPages: Readonly<Record<string, Readonly<Record<string, Runner>>>> = {
  'docs/getting-started.md': { 'Check the network': 'pages' },
  'docs/installation/requirements.md': {},
  'docs/installation/images.md': { 'Reproducible builds': 'images', Signing: 'images' },
  'docs/installation/manifest.md': { Install: 'install', 'Plugin and CNI configuration': 'pages' },
  'docs/installation/helm.md': {
    Install: 'helm',
    'Change and roll back': 'helm',
    'Upgrade to another version': 'kubeadm',
    'Take over an installation with the manifest': 'kubeadm',
  },
  'docs/installation/kubeadm.md': {
    'Create the cluster': 'kubeadm',
    'Join workers': 'kubeadm',
    'Add a control-plane node': 'kubeadm',
    'Install with the manifest': 'kubeadm',
    'Install with Helm': 'kubeadm',
    'Check the installation': 'kubeadm',
    'Upgrade Kubernetes': 'kubeadm',
    'Remove the cluster': 'kubeadm',
  },
  'docs/reference/metrics.md': { Prometheus: 'pages' },
  'docs/installation/upgrade.md': { Pools: 'pages' },
  'docs/installation/uninstall.md': { Uninstalling: 'install' },
  'docs/installation/kube-proxy-replacement.md': {
    Steps: 'kubeadm',
    kubeadm: 'kubeadm',
    'With the program of kube-proxy': 'kubeadm',
    'By hand': 'pages',
  },
  'docs/network-policy.md': {
    'Audit policies before enforcing them': 'pages',
    'Inspect policies': 'pages',
    'Log denied traffic': 'pages',
    'Refuse denied connections': 'pages',
    'Suspend policies': 'pages',
  },
  'docs/services.md': { 'Inspect a Service': 'pages' },
  'docs/host-ports-and-bandwidth.md': { 'Check host ports': 'pages', 'Bandwidth limits': 'pages' },
  'docs/troubleshooting.md': {
    Troubleshooting: 'pages',
    'The whole fleet': 'pages',
    'Support bundle': 'pages',
    'No container of the agent runs': 'pages',
    'A pod has to be opened while no agent runs': 'pages',
  },
};

/** Maximum number of blocks of all pages that no test runs. */
export const notRunMost = 7;
