import type {
  ContainerStatus,
  EndpointSubset,
  NodeSpec,
  NodeStatus,
  PodSpec,
  PodStatus,
  ServicePort,
  ServiceSpec,
  ServiceStatus,
} from 'kubernetes-types/core/v1.d.ts';
import type { ApiObject } from '../object/api-object.ts';
import { arrayAt, at, textAt } from '../object/json.ts';
import { ageColumn, humanAge, nameColumn, type PrinterColumn } from '../resource/resource.ts';

const none = '<none>';

export function column(name: string, cell: (object: ApiObject) => string | number | null, priority = 0): PrinterColumn {
  return { name, type: 'string', priority, cell };
}

export function numberColumn(name: string, cell: (object: ApiObject) => number): PrinterColumn {
  return { name, type: 'integer', cell };
}

/** `a=1,b=2`, or `<none>`. */
export function labelText(labels: unknown): string {
  return (
    Object.entries((labels ?? {}) as Record<string, string>)
      .map(([key, value]) => `${key}=${value}`)
      .join(',') || none
  );
}

export const namespaceColumns: readonly PrinterColumn[] = [
  nameColumn,
  column('Status', (object) => textAt(object.status, 'phase')),
  ageColumn,
];

export const configMapColumns: readonly PrinterColumn[] = [
  nameColumn,
  numberColumn('Data', (object) => Object.keys({ ...(object['data'] as object), ...(object['binaryData'] as object) }).length),
  ageColumn,
];

export const secretColumns: readonly PrinterColumn[] = [
  nameColumn,
  column('Type', (object) => textAt(object, 'type')),
  ...configMapColumns.slice(1),
];

export const serviceAccountColumns: readonly PrinterColumn[] = [
  nameColumn,
  numberColumn('Secrets', (object) => arrayAt(object, 'secrets').length),
  ageColumn,
];

export const podColumns: readonly PrinterColumn[] = [
  nameColumn,
  column('Ready', (object) => `${podStatuses(object).filter(({ ready }) => ready).length}/${arrayAt(object.spec, 'containers').length}`),
  column('Status', podPhase),
  column('Restarts', (object) => String(podStatuses(object).reduce((sum, { restartCount }) => sum + restartCount, 0))),
  ageColumn,
  column('IP', (object) => podStatus(object).podIPs?.[0]?.ip ?? podStatus(object).podIP ?? none, 1),
  column('Node', (object) => (object.spec as PodSpec).nodeName ?? none, 1),
  column('Nominated Node', (object) => podStatus(object).nominatedNodeName ?? none, 1),
  column('Readiness Gates', () => none, 1),
];

function podStatus(object: ApiObject): PodStatus {
  return (object.status ?? {}) as PodStatus;
}

function podStatuses(object: ApiObject): readonly ContainerStatus[] {
  return podStatus(object).containerStatuses ?? [];
}

/** The status kubectl shows: the problem of a container if there is one, else the phase. */
function podPhase(object: ApiObject): string {
  if (object.metadata.deletionTimestamp !== undefined) return 'Terminating';
  for (const { state } of podStatuses(object)) {
    const reason = state?.waiting?.reason ?? state?.terminated?.reason;
    if (reason !== undefined && reason !== '') return reason;
  }
  return podStatus(object).reason ?? podStatus(object).phase ?? 'Unknown';
}

export const nodeColumns: readonly PrinterColumn[] = [
  nameColumn,
  column('Status', (object) => {
    const ready = (nodeStatus(object).conditions ?? []).find(({ type }) => type === 'Ready')?.status;
    const word = ready === 'True' ? 'Ready' : ready === undefined ? 'Unknown' : 'NotReady';
    return (object.spec as NodeSpec | undefined)?.unschedulable === true ? `${word},SchedulingDisabled` : word;
  }),
  column('Roles', (object) => {
    const prefix = 'node-role.kubernetes.io/';
    const roles = Object.keys(object.metadata.labels ?? {}).filter((label) => label.startsWith(prefix));
    return roles.map((label) => label.slice(prefix.length)).join(',') || none;
  }),
  ageColumn,
  column('Version', (object) => nodeStatus(object).nodeInfo?.kubeletVersion ?? ''),
  column('Internal-IP', (object) => nodeAddress(object, 'InternalIP'), 1),
  column('External-IP', (object) => nodeAddress(object, 'ExternalIP'), 1),
  column('OS-Image', (object) => nodeStatus(object).nodeInfo?.osImage ?? '<unknown>', 1),
  column('Kernel-Version', (object) => nodeStatus(object).nodeInfo?.kernelVersion ?? '<unknown>', 1),
  column('Container-Runtime', (object) => nodeStatus(object).nodeInfo?.containerRuntimeVersion ?? '<unknown>', 1),
];

function nodeStatus(object: ApiObject): NodeStatus {
  return (object.status ?? {}) as NodeStatus;
}

function nodeAddress(object: ApiObject, wanted: string): string {
  return (nodeStatus(object).addresses ?? []).find(({ type }) => type === wanted)?.address ?? none;
}

export const serviceColumns: readonly PrinterColumn[] = [
  nameColumn,
  column('Type', (object) => serviceSpec(object).type ?? 'ClusterIP'),
  column('Cluster-IP', (object) => serviceSpec(object).clusterIP || none),
  column('External-IP', externalAddress),
  column('Port(s)', (object) => (serviceSpec(object).ports ?? []).map(portText).join(',') || none),
  ageColumn,
  column('Selector', (object) => labelText(serviceSpec(object).selector), 1),
];

function serviceSpec(object: ApiObject): ServiceSpec {
  return (object.spec ?? {}) as ServiceSpec;
}

function portText({ port, nodePort, protocol = 'TCP' }: ServicePort): string {
  return nodePort === undefined || nodePort === 0 ? `${port}/${protocol}` : `${port}:${nodePort}/${protocol}`;
}

function externalAddress(object: ApiObject): string {
  const { type, externalIPs = [], externalName } = serviceSpec(object);
  if (type === 'ExternalName') return externalName ?? none;
  const ingress = ((object.status ?? {}) as ServiceStatus).loadBalancer?.ingress ?? [];
  const addresses = type === 'LoadBalancer' ? [...ingress.map(({ ip, hostname }) => ip ?? hostname ?? ''), ...externalIPs] : externalIPs;
  return addresses.join(',') || (type === 'LoadBalancer' ? '<pending>' : none);
}

export const endpointsColumns: readonly PrinterColumn[] = [
  nameColumn,
  column('Endpoints', (object) => {
    const pairs = (arrayAt(object, 'subsets') as readonly EndpointSubset[]).flatMap(({ addresses = [], ports = [] }) =>
      addresses.flatMap(({ ip }) =>
        ports.length === 0 ? [ip] : ports.map(({ port }) => (ip.includes(':') ? `[${ip}]:${port}` : `${ip}:${port}`)),
      ),
    );
    return firstThree(pairs);
  }),
  ageColumn,
];

/** The first three of a list and the number of the others, as kubectl shortens it. */
export function firstThree(texts: readonly string[]): string {
  if (texts.length === 0) return none;
  return texts.length <= 3 ? texts.join(',') : `${texts.slice(0, 3).join(',')} + ${texts.length - 3} more...`;
}

export const eventColumns: readonly PrinterColumn[] = [
  { name: 'Last Seen', type: 'string', cell: (object, nowMs) => humanAge(lastSeen(object), nowMs) },
  column('Type', (object) => textAt(object, 'type')),
  column('Reason', (object) => textAt(object, 'reason')),
  column('Object', (object) => `${textAt(object, 'involvedObject', 'kind').toLowerCase()}/${textAt(object, 'involvedObject', 'name')}`),
  column('Subobject', (object) => textAt(object, 'involvedObject', 'fieldPath'), 1),
  column(
    'Source',
    (object) => [textAt(object, 'source', 'component'), textAt(object, 'source', 'host')].filter((part) => part !== '').join(', '),
    1,
  ),
  column('Message', (object) => textAt(object, 'message').trim()),
  {
    name: 'First Seen',
    type: 'string',
    priority: 1,
    cell: (object, nowMs) => humanAge(textAt(object, 'firstTimestamp') || lastSeen(object), nowMs),
  },
  column('Count', (object) => Number(at(object, 'series', 'count') ?? at(object, 'count') ?? 1), 1),
  { ...nameColumn, priority: 1 },
];

function lastSeen(object: ApiObject): string {
  return (
    textAt(object, 'series', 'lastObservedTime') ||
    textAt(object, 'lastTimestamp') ||
    textAt(object, 'eventTime') ||
    object.metadata.creationTimestamp
  );
}
