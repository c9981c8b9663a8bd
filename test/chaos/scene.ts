import type { AlertWatch } from './alert-watch.ts';
import type { ApiObject } from './api.ts';
import type { Otherwise } from './api-contradictions.ts';
import { until } from './host.ts';
import type { Lab, LabPod } from './lab.ts';
import { bandwidthOf, extrasOf } from './pod-extras.ts';
import { annotationsOf } from './pod-interfaces.ts';

export const namespaces = ['shop', 'depot'] as const;
const podsReadyMs = 600_000;

interface ScenePod {
  readonly name: string;
  readonly namespace: string;
  readonly node: string;
  readonly app: string;
}

/** The tested agent's connection to the API server. */
export interface ApiWay {
  stall(forMs: number): Promise<void>;
  cut(): void;
  /** Shows this false state from now on, on new connections; the true one if absent. */
  tell(otherwise?: Otherwise): void;
}

/** The lab with its present objects. Steps draw from these. */
export class Scene {
  readonly lab: Lab;
  /** Undefined until it exists. */
  way: ApiWay | undefined;
  alerts: AlertWatch | undefined;
  pods: readonly LabPod[] = [];
  podObjects: readonly ApiObject[] = [];
  services: readonly ApiObject[] = [];
  policies: readonly ApiObject[] = [];
  slices: readonly ApiObject[] = [];
  nodes: readonly ApiObject[] = [];

  private constructor(lab: Lab) {
    this.lab = lab;
  }

  /** Creates the initial objects of every run. */
  static async set(lab: Lab): Promise<Scene> {
    const scene = new Scene(lab);
    for (const name of namespaces) await lab.createNamespace(name, { team: name });
    const pods = firstPods(lab);
    await Promise.all(pods.map((pod) => lab.api.create(`/api/v1/namespaces/${pod.namespace}/pods`, podObject(pod))));
    await scene.podsRun();
    await lab.api.create('/api/v1/namespaces/shop/services', firstService);
    await scene.look();
    return scene;
  }

  /** Reads the present objects. */
  async look(): Promise<void> {
    const { api } = this.lab;
    const ours = async (path: string): Promise<readonly ApiObject[]> =>
      sorted((await api.list(path)).filter(({ metadata }) => namespaces.some((name) => name === metadata.namespace)));
    [this.pods, this.podObjects, this.services, this.policies, this.slices, this.nodes] = await Promise.all([
      this.lab.status().then(({ pods }) => pods),
      ours('/api/v1/pods'),
      ours('/api/v1/services'),
      ours('/apis/networking.k8s.io/v1/networkpolicies'),
      ours('/apis/discovery.k8s.io/v1/endpointslices'),
      api.list('/api/v1/nodes').then(sorted),
    ]);
  }

  /** Waits until all our pods run, none terminates, and the runtime has no others. */
  async podsRun(): Promise<void> {
    const ours = ({ namespace }: { readonly namespace?: string }): boolean => namespaces.some((name) => name === namespace);
    let missing = '';
    await until(
      async () => {
        const all = (await Promise.all(namespaces.map((name) => this.lab.api.list(`/api/v1/namespaces/${name}/pods`)))).flat();
        const isReady = ({ status, metadata }: ApiObject): boolean => status?.['phase'] === 'Running' && !('deletionTimestamp' in metadata);
        const networked = (await this.lab.status()).pods.filter(ours).map(({ namespace, name }) => `${namespace}/${name}`);
        missing = all
          .filter((pod) => !isReady(pod))
          .map(keyOf)
          .join();
        return missing === '' && all.map(keyOf).toSorted().join() === networked.toSorted().join();
      },
      podsReadyMs,
      () => `not all pods run, or others have a network: ${missing}`,
    );
  }
}

function firstPods({ tried, other }: Lab): readonly ScenePod[] {
  const on = (node: string, ...names: readonly string[]): ScenePod[] =>
    names.map((path) => {
      const [namespace = '', name = ''] = path.split('/');
      return { name, namespace, node, app: name.replace(/-\d+$/, '') };
    });
  return [
    ...on(tried.name, 'shop/web-0', 'shop/web-1', 'shop/cli-0', 'depot/db-0', 'depot/cli-0'),
    ...on(other.name, 'shop/web-2', 'depot/db-1', 'depot/cli-1'),
  ];
}

export function podObject({ name, namespace, node, app }: ScenePod): ApiObject {
  const extras = extrasOf({ namespace, name });
  const host = extras.hostPort === undefined ? {} : { hostPort: extras.hostPort };
  const ports = ['TCP', 'UDP'].map((protocol) => ({ name: protocol.toLowerCase(), containerPort: 80, protocol, ...host }));
  return {
    metadata: { name, namespace, labels: { app, from: 'chaos' }, annotations: { ...bandwidthOf(extras), ...annotationsOf(name) } },
    spec: {
      nodeSelector: { 'kubernetes.io/hostname': node },
      terminationGracePeriodSeconds: 1,
      containers: [{ name: 'responder', image: 'responder', ports }],
    },
  };
}

const firstService: ApiObject = {
  metadata: { name: 'first', namespace: 'shop' },
  spec: {
    type: 'NodePort',
    ipFamilyPolicy: 'PreferDualStack',
    selector: { app: 'web' },
    ports: [{ name: 'http', port: 80, targetPort: 80 }],
  },
};

export function pathOf(plural: string, { metadata }: ApiObject): string {
  const group =
    plural === 'networkpolicies' ? '/apis/networking.k8s.io/v1' : plural === 'endpointslices' ? '/apis/discovery.k8s.io/v1' : '/api/v1';
  const where = metadata.namespace === undefined ? '' : `/namespaces/${metadata.namespace}`;
  return `${group}${where}/${plural}/${metadata.name}`;
}

export function keyOf({ metadata }: ApiObject): string {
  return `${metadata.namespace ?? ''}/${metadata.name}`;
}

function sorted(objects: readonly ApiObject[]): readonly ApiObject[] {
  return objects.toSorted((one, other) => (keyOf(one) < keyOf(other) ? -1 : 1));
}
