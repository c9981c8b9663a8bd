/** Has a shell, curl and ping, and serves whatever probes ask for. */
const image = 'registry.k8s.io/e2e-test-images/agnhost:2.66.1';

type Probe = Readonly<Record<string, unknown>>;

interface WantedPod {
  readonly name: string;
  readonly app: string;
  /** The scheduler's choice if absent. */
  readonly nodeName?: string;
  /** What agnhost does; waits if absent. */
  readonly args?: readonly string[];
  /** The same for startup, readiness and liveness. */
  readonly probe?: Probe;
}

export function pod({ name, app, nodeName, args = ['pause'], probe }: WantedPod): object {
  const often = probe && { ...probe, periodSeconds: 1, timeoutSeconds: 5, failureThreshold: 30 };
  const probes = often && { startupProbe: often, readinessProbe: often, livenessProbe: often };
  const spec = { ...(nodeName && { nodeName }), terminationGracePeriodSeconds: 1, containers: [{ name: 'main', image, args, ...probes }] };
  return { apiVersion: 'v1', kind: 'Pod', metadata: { name, labels: { app } }, spec };
}

/** Pods whose probes are all of one kind, one pod a kind. */
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
export function service(name: string, app: string, ports: readonly object[], type = 'ClusterIP'): object {
  const spec = { type, selector: { app }, ipFamilyPolicy: 'PreferDualStack', ports };
  return { apiVersion: 'v1', kind: 'Service', metadata: { name }, spec };
}

/** Lets only pods of one app talk with those of another. */
export function onlyFrom(allowed: string, app: string): object {
  const ingress = [{ from: [{ podSelector: { matchLabels: { app: allowed } } }] }];
  const spec = { podSelector: { matchLabels: { app } }, policyTypes: ['Ingress'], ingress };
  return { apiVersion: 'networking.k8s.io/v1', kind: 'NetworkPolicy', metadata: { name: `only-${allowed}` }, spec };
}
