/** Has a shell, curl and ping, and answers every kind of probe. */
const image = 'registry.k8s.io/e2e-test-images/agnhost:2.66.1';

type Probe = Readonly<Record<string, unknown>>;

interface WantedPod {
  readonly name: string;
  readonly app: string;
  /** The scheduler's choice if absent. */
  readonly nodeName?: string;
  /** Arguments of agnhost; it waits if absent. */
  readonly args?: readonly string[];
  /** The same for startup, readiness and liveness. */
  readonly probe?: Probe;
}

interface KubeObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly labels?: Readonly<Record<string, string>> };
  readonly spec: object;
}

export function pod({ name, app, nodeName, args = ['pause'], probe }: WantedPod): KubeObject {
  const often = probe && { ...probe, periodSeconds: 1, timeoutSeconds: 5, failureThreshold: 30 };
  const probes = often && { startupProbe: often, readinessProbe: often, livenessProbe: often };
  const spec = { ...(nodeName && { nodeName }), terminationGracePeriodSeconds: 1, containers: [{ name: 'main', image, args, ...probes }] };
  return { apiVersion: 'v1', kind: 'Pod', metadata: { name, labels: { app } }, spec };
}

/** Pods whose probes are all of one kind, one pod for each kind. */
export function probedPods(nodeName: string): readonly object[] {
  const kinds: Readonly<Record<string, { args: readonly string[]; probe: Probe }>> = {
    http: { args: ['netexec'], probe: { httpGet: { path: '/hostname', port: 8080 } } },
    tcp: { args: ['netexec'], probe: { tcpSocket: { port: 8080 } } },
    exec: { args: ['pause'], probe: { exec: { command: ['true'] } } },
    grpc: { args: ['grpc-health-checking'], probe: { grpc: { port: 5000 } } },
  };
  return Object.entries(kinds).map(([kind, what]) => pod({ name: `probed-${kind}`, app: 'probed', nodeName, ...what }));
}

/** Both families, if the cluster has them. */
export function service(name: string, app: string, ports: readonly object[], type = 'ClusterIP'): KubeObject {
  const spec = { type, selector: { app }, ipFamilyPolicy: 'PreferDualStack', ports };
  return { apiVersion: 'v1', kind: 'Service', metadata: { name }, spec };
}

/** Allows only pods of one app to communicate with those of another. */
export function onlyFrom(allowed: string, app: string, name = `only-${allowed}`): KubeObject {
  const ingress = [{ from: [{ podSelector: { matchLabels: { app: allowed } } }] }];
  const spec = { podSelector: { matchLabels: { app } }, policyTypes: ['Ingress'], ingress };
  return { apiVersion: 'networking.k8s.io/v1', kind: 'NetworkPolicy', metadata: { name }, spec };
}

/** Objects of the commands on pages: a pod, a Service and a policy of one name, and another pod that may connect to it. */
export function pageObjects(
  { namespace, name, other }: { readonly [part in 'namespace' | 'name' | 'other']: string },
  nodeName: string,
): readonly object[] {
  const ours = [
    ...[name, other].map((app) => pod({ name: app, app, nodeName, args: ['netexec'] })),
    service(name, name, [{ port: 5432, targetPort: 8080 }]),
    onlyFrom(other, name, name),
  ];
  return [
    { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } },
    ...ours.map((each) => ({ ...each, metadata: { ...each.metadata, namespace } })),
    podMonitors,
  ];
}

/** A resource of Prometheus' operator, whose controller is absent: only the manifest's objects are tested. */
const podMonitors = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: 'podmonitors.monitoring.coreos.com' },
  spec: {
    group: 'monitoring.coreos.com',
    names: { kind: 'PodMonitor', plural: 'podmonitors', singular: 'podmonitor' },
    scope: 'Namespaced',
    versions: [
      {
        name: 'v1',
        served: true,
        storage: true,
        schema: { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } },
      },
    ],
  },
};
