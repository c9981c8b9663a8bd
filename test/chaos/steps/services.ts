import type { ApiObject } from '../api.ts';
import type { Random } from '../random.ts';
import { keyOf, namespaces, pathOf } from '../scene.ts';
import type { StepKind } from '../step.ts';

const most = 10;
const apps = ['web', 'db', 'cli', 'unused'] as const;

/** A Service of any kind that the data path serves. */
function drawService(name: string, namespace: string, random: Random): ApiObject {
  const type = random.pick(['ClusterIP', 'ClusterIP', 'NodePort', 'LoadBalancer']);
  const outside = type !== 'ClusterIP';
  const ports = random.some(['TCP', 'UDP'] as const).map((protocol) => ({
    name: protocol.toLowerCase(),
    protocol,
    port: 80 + random.below(3),
    targetPort: random.pick<number | string>([80, 80, 81, protocol.toLowerCase()]),
  }));
  return {
    metadata: { name, namespace },
    spec: {
      type,
      selector: { app: random.pick(apps) },
      ports,
      ipFamilyPolicy: random.pick(['SingleStack', 'PreferDualStack', 'PreferDualStack']),
      sessionAffinity: random.pick(['None', 'None', 'ClientIP']),
      internalTrafficPolicy: random.pick(['Cluster', 'Cluster', 'Cluster', 'Local']),
      ...(outside && { externalTrafficPolicy: random.pick(['Cluster', 'Local']) }),
      ...(random.chance(0.2) && { externalIPs: [`198.18.0.${1 + random.below(20)}`] }),
    },
  };
}

const created: StepKind = {
  name: 'service.created',
  changes: 'objects',
  deadline: 'announced',
  draw: ({ lab, services }, random) => {
    const namespace = random.pick(namespaces);
    const name = `s${random.below(most)}`;
    const object = drawService(name, namespace, random);
    if (services.some((service) => keyOf(service) === keyOf(object))) return undefined;
    return {
      what: `${keyOf(object)} ${JSON.stringify(object.spec)}`,
      act: () => lab.api.create(`/api/v1/namespaces/${namespace}/services`, object),
    };
  },
};

const deleted: StepKind = {
  name: 'service.deleted',
  changes: 'objects',
  deadline: 'announced',
  draw: ({ lab, services }, random) => {
    const service = random.maybe(services);
    return service && { what: keyOf(service), act: () => lab.api.delete(pathOf('services', service)) };
  },
};

export const serviceSteps: readonly StepKind[] = [created, deleted];
