import type {
  DaemonSetSpec,
  DaemonSetStatus,
  DeploymentSpec,
  DeploymentStatus,
  ReplicaSetSpec,
  ReplicaSetStatus,
} from 'kubernetes-types/apps/v1.d.ts';
import type { PodSpec } from 'kubernetes-types/core/v1.d.ts';
import type { Endpoint, EndpointPort } from 'kubernetes-types/discovery/v1.d.ts';
import type { LabelSelector } from 'kubernetes-types/meta/v1.d.ts';
import type { ApiObject } from '../object/api-object.ts';
import { arrayAt, at, textAt } from '../object/json.ts';
import { ageColumn, nameColumn, type PrinterColumn } from '../resource/resource.ts';
import { column, firstThree, labelText, numberColumn } from './columns-core.ts';

export const endpointSliceColumns: readonly PrinterColumn[] = [
  nameColumn,
  column('AddressType', (object) => textAt(object, 'addressType')),
  column('Ports', (object) => {
    const ports = arrayAt(object, 'ports') as readonly EndpointPort[];
    return ports.length === 0 ? '<unset>' : firstThree(ports.map(({ port }) => (port === undefined ? '*' : String(port))));
  }),
  column('Endpoints', (object) => {
    const endpoints = arrayAt(object, 'endpoints') as readonly Endpoint[];
    return endpoints.length === 0 ? '<unset>' : firstThree(endpoints.flatMap(({ addresses }) => addresses));
  }),
  ageColumn,
];

export const networkPolicyColumns: readonly PrinterColumn[] = [
  nameColumn,
  column('Pod-Selector', (object) => selectorText((at(object.spec, 'podSelector') ?? {}) as LabelSelector)),
  ageColumn,
];

export const leaseColumns: readonly PrinterColumn[] = [
  nameColumn,
  column('Holder', (object) => textAt(object.spec, 'holderIdentity')),
  ageColumn,
];

const createdAt: PrinterColumn = { name: 'Created At', type: 'date', cell: (object) => object.metadata.creationTimestamp };

export const createdAtColumns: readonly PrinterColumn[] = [nameColumn, createdAt];

export const bindingColumns: readonly PrinterColumn[] = [
  nameColumn,
  column('Role', (object) => `${textAt(object, 'roleRef', 'kind')}/${textAt(object, 'roleRef', 'name')}`),
  ageColumn,
  column('Users', (object) => subjects(object, 'User'), 1),
  column('Groups', (object) => subjects(object, 'Group'), 1),
  column('ServiceAccounts', (object) => subjects(object, 'ServiceAccount'), 1),
];

function subjects(object: ApiObject, kind: string): string {
  return (arrayAt(object, 'subjects') as readonly { kind: string; name: string; namespace?: string }[])
    .filter((subject) => subject.kind === kind)
    .map(({ name, namespace }) => (namespace === undefined ? name : `${namespace}/${name}`))
    .join(', ');
}

export const deploymentColumns: readonly PrinterColumn[] = [
  nameColumn,
  column('Ready', (object) => `${deploymentStatus(object).readyReplicas ?? 0}/${(object.spec as DeploymentSpec).replicas ?? 0}`),
  numberColumn('Up-to-date', (object) => deploymentStatus(object).updatedReplicas ?? 0),
  numberColumn('Available', (object) => deploymentStatus(object).availableReplicas ?? 0),
  ageColumn,
  ...templateColumns(),
];

function deploymentStatus(object: ApiObject): DeploymentStatus {
  return (object.status ?? {}) as DeploymentStatus;
}

export const replicaSetColumns: readonly PrinterColumn[] = [
  nameColumn,
  numberColumn('Desired', (object) => (object.spec as ReplicaSetSpec).replicas ?? 0),
  numberColumn('Current', (object) => replicaSetStatus(object).replicas),
  numberColumn('Ready', (object) => replicaSetStatus(object).readyReplicas ?? 0),
  ageColumn,
  ...templateColumns(),
];

function replicaSetStatus(object: ApiObject): ReplicaSetStatus {
  return { replicas: 0, ...(object.status as ReplicaSetStatus | undefined) };
}

export const daemonSetColumns: readonly PrinterColumn[] = [
  nameColumn,
  numberColumn('Desired', (object) => daemonSetStatus(object).desiredNumberScheduled ?? 0),
  numberColumn('Current', (object) => daemonSetStatus(object).currentNumberScheduled ?? 0),
  numberColumn('Ready', (object) => daemonSetStatus(object).numberReady ?? 0),
  numberColumn('Up-to-date', (object) => daemonSetStatus(object).updatedNumberScheduled ?? 0),
  numberColumn('Available', (object) => daemonSetStatus(object).numberAvailable ?? 0),
  column('Node Selector', (object) => labelText((object.spec as DaemonSetSpec).template.spec?.nodeSelector)),
  ageColumn,
  ...templateColumns(),
];

function daemonSetStatus(object: ApiObject): Partial<DaemonSetStatus> {
  return (object.status ?? {}) as Partial<DaemonSetStatus>;
}

function templateColumns(): readonly PrinterColumn[] {
  const containers = (object: ApiObject) => ((at(object.spec, 'template', 'spec') ?? { containers: [] }) as PodSpec).containers;
  return [
    column(
      'Containers',
      (object) =>
        containers(object)
          .map(({ name }) => name)
          .join(','),
      1,
    ),
    column(
      'Images',
      (object) =>
        containers(object)
          .map(({ image }) => image)
          .join(','),
      1,
    ),
    column('Selector', (object) => selectorText((at(object.spec, 'selector') ?? {}) as LabelSelector), 1),
  ];
}

function selectorText({ matchLabels = {}, matchExpressions = [] }: LabelSelector): string {
  const labels = Object.entries(matchLabels).map(([key, value]) => `${key}=${value}`);
  const expressions = matchExpressions.map(({ key, operator, values = [] }) => {
    if (operator === 'Exists') return key;
    if (operator === 'DoesNotExist') return `!${key}`;
    return `${key} ${operator.toLowerCase()} (${values.toSorted().join(',')})`;
  });
  return [...labels, ...expressions].join(',') || '<none>';
}
