import type { LabPlan } from '../plan/plan.ts';
import { serviceAddress } from './control-plane-arguments.ts';

/** An object to create, and its collection. */
interface ClusterObject {
  readonly collection: string;
  readonly name: string;
  readonly object: Readonly<Record<string, unknown>>;
}

const namespace = 'kube-system';
const name = 'coredns';
const labels = { 'k8s-app': 'kube-dns' };
/** Name from the build of the images. */
const image = 'registry.k8s.io/coredns/coredns:seine';

const corefile = `.:53 {
    errors
    health
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
      pods insecure
    }
    cache 5
}
`;

/** CoreDNS as in a cluster: two replicas for the tenth address of the Services. It forwards nothing, because there is no upstream. */
export function clusterDnsObjects(plan: LabPlan): ClusterObject[] {
  const core = `/api/v1/namespaces/${namespace}`;
  const rbac = '/apis/rbac.authorization.k8s.io/v1';
  const access = { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'system:coredns' };
  const rules = [
    { apiGroups: [''], resources: ['endpoints', 'services', 'pods', 'namespaces'], verbs: ['list', 'watch'] },
    { apiGroups: ['discovery.k8s.io'], resources: ['endpointslices'], verbs: ['list', 'watch'] },
  ];
  const subjects = [{ kind: 'ServiceAccount', name, namespace }];
  return [
    { collection: `${core}/serviceaccounts`, name, object: {} },
    { collection: `${rbac}/clusterroles`, name: access.name, object: { rules } },
    { collection: `${rbac}/clusterrolebindings`, name: access.name, object: { roleRef: access, subjects } },
    { collection: `${core}/configmaps`, name, object: { data: { Corefile: corefile } } },
    { collection: `/apis/apps/v1/namespaces/${namespace}/deployments`, name, object: { spec: deployment() } },
    { collection: `${core}/services`, name: 'kube-dns', object: { spec: service(plan) } },
  ].map((each) => ({ ...each, object: { metadata: { name: each.name, labels }, ...each.object } }));
}

function deployment(): Readonly<Record<string, unknown>> {
  const ports = [
    { name: 'dns', containerPort: 53, protocol: 'UDP' },
    { name: 'dns-tcp', containerPort: 53, protocol: 'TCP' },
  ];
  const container = {
    name,
    image,
    imagePullPolicy: 'Never',
    args: ['-conf', '/etc/coredns/Corefile'],
    ports,
    readinessProbe: { httpGet: { path: '/ready', port: 8181 }, periodSeconds: 1 },
    volumeMounts: [{ name: 'config', mountPath: '/etc/coredns' }],
  };
  const spec = {
    serviceAccountName: name,
    dnsPolicy: 'Default',
    terminationGracePeriodSeconds: 1,
    tolerations: [{ operator: 'Exists' }],
    containers: [container],
    volumes: [{ name: 'config', configMap: { name } }],
  };
  return { replicas: 2, selector: { matchLabels: labels }, template: { metadata: { labels }, spec } };
}

function service(plan: LabPlan): Readonly<Record<string, unknown>> {
  const clusterIPs = serviceAddress(plan, 10n);
  const ports = [
    { name: 'dns', port: 53, protocol: 'UDP' },
    { name: 'dns-tcp', port: 53, protocol: 'TCP' },
  ];
  const families = { ipFamilyPolicy: clusterIPs.length > 1 ? 'RequireDualStack' : 'SingleStack' };
  return { clusterIP: clusterIPs[0], clusterIPs, selector: labels, ports, ...families };
}
