import { cidrAddress, type Family, parseCidr } from '../../src/base/net/ip.ts';
import { addressing, type LabPlan } from '../plan/plan.ts';
import type { Certificates } from './certificates.ts';
import type { ControlPlanePaths } from './paths.ts';

const etcdUrl = 'http://127.0.0.1:2379';

export const controlPlanePrograms = ['etcd', 'kube-apiserver', 'kube-controller-manager', 'kube-scheduler'] as const;
export type ControlPlaneProgram = (typeof controlPlanePrograms)[number];

/** Addresses of the control plane on the nodes' network, one per family of the lab. */
export function controlPlaneAddresses(families: readonly Family[]): string[] {
  return families.map((family) => addressing.controlPlane[family]);
}

/**
 * Addresses by kubeadm's convention: the first of the Services' first network is the API server's, the tenth the cluster's DNS server's.
 */
export function serviceAddress(plan: Pick<LabPlan, 'serviceCidrs'>, number: bigint): string[] {
  return plan.serviceCidrs.map((cidr) => cidrAddress(parseCidr(cidr), number).text);
}

/** The command line of each program of the control plane. */
export function controlPlaneArguments(
  plan: LabPlan,
  paths: ControlPlanePaths,
  certificates: Certificates,
): Readonly<Record<ControlPlaneProgram, readonly string[]>> {
  return {
    etcd: [
      `--data-dir=${paths.etcd}`,
      `--listen-client-urls=${etcdUrl}`,
      `--advertise-client-urls=${etcdUrl}`,
      '--listen-peer-urls=http://127.0.0.1:2380',
      '--unsafe-no-fsync',
      '--log-level=warn',
    ],
    'kube-apiserver': apiServerArguments(plan, paths, certificates),
    'kube-controller-manager': [
      ...controllerArguments(plan, paths.kubeconfig('kube-controller-manager'), certificates),
      ...(plan.kubernetes === undefined ? patientWithNodes : []),
    ],
    'kube-scheduler': [...clientArguments(paths.kubeconfig('kube-scheduler')), '--leader-elect=false'],
  };
}

/** Grace period for the lab's own kubelets, which send no heartbeat. */
const patientWithNodes = ['--node-monitor-grace-period=24h'];

/** Records every request of the network's own accounts, like an operator's audit; none of others. */
export const auditPolicy = {
  apiVersion: 'audit.k8s.io/v1',
  kind: 'Policy',
  omitStages: ['RequestReceived'],
  rules: [{ level: 'Metadata', userGroups: ['system:serviceaccounts:seine-system'] }, { level: 'None' }],
};
const auditMostMiB = 64;

function apiServerArguments(plan: LabPlan, paths: ControlPlanePaths, certificates: Certificates): string[] {
  const [advertised = ''] = controlPlaneAddresses(plan.families);
  return [
    `--etcd-servers=${etcdUrl}`,
    `--bind-address=${plan.families.includes('ipv6') ? '::' : '0.0.0.0'}`,
    `--advertise-address=${advertised}`,
    `--secure-port=${addressing.apiServerPort}`,
    `--tls-cert-file=${certificates.file('apiserver', 'crt')}`,
    `--tls-private-key-file=${certificates.file('apiserver', 'key')}`,
    `--client-ca-file=${certificates.file('ca', 'crt')}`,
    '--authorization-mode=Node,RBAC',
    '--enable-admission-plugins=NodeRestriction',
    '--allow-privileged=true',
    `--service-account-key-file=${certificates.file('sa', 'pub')}`,
    `--service-account-signing-key-file=${certificates.file('sa', 'key')}`,
    '--service-account-issuer=https://kubernetes.default.svc',
    `--service-cluster-ip-range=${plan.serviceCidrs.join(',')}`,
    `--kubelet-client-certificate=${certificates.file('kubelet-client', 'crt')}`,
    `--kubelet-client-key=${certificates.file('kubelet-client', 'key')}`,
    '--kubelet-preferred-address-types=InternalIP',
    `--requestheader-client-ca-file=${certificates.file('ca', 'crt')}`,
    '--requestheader-allowed-names=front-proxy',
    '--requestheader-username-headers=X-Remote-User',
    '--requestheader-group-headers=X-Remote-Group',
    '--requestheader-extra-headers-prefix=X-Remote-Extra-',
    `--proxy-client-cert-file=${certificates.file('front-proxy', 'crt')}`,
    `--proxy-client-key-file=${certificates.file('front-proxy', 'key')}`,
    `--audit-policy-file=${paths.auditPolicy}`,
    `--audit-log-path=${paths.auditLog}`,
    `--audit-log-maxsize=${auditMostMiB}`,
    '--audit-log-maxbackup=1',
  ];
}

function controllerArguments(plan: LabPlan, kubeconfig: string, certificates: Certificates): string[] {
  return [
    ...clientArguments(kubeconfig),
    '--use-service-account-credentials',
    `--service-account-private-key-file=${certificates.file('sa', 'key')}`,
    `--root-ca-file=${certificates.file('ca', 'crt')}`,
    `--cluster-signing-cert-file=${certificates.file('ca', 'crt')}`,
    `--cluster-signing-key-file=${certificates.file('ca', 'key')}`,
    '--allocate-node-cidrs=true',
    `--cluster-cidr=${plan.podCidrs.join(',')}`,
    ...plan.families.map((family) => maskArgument(family, plan.families.length)),
    `--service-cluster-ip-range=${plan.serviceCidrs.join(',')}`,
    '--leader-elect=false',
  ];
}

/** A cluster of one family has one flag, a cluster of two a flag for each; Kubernetes rejects the other form. */
function maskArgument(family: Family, count: number): string {
  return `--node-cidr-mask-size${count === 1 ? '' : `-${family}`}=${addressing.nodeMask[family]}`;
}

function clientArguments(kubeconfig: string): string[] {
  return ['kubeconfig', 'authentication-kubeconfig', 'authorization-kubeconfig'].map((flag) => `--${flag}=${kubeconfig}`);
}
