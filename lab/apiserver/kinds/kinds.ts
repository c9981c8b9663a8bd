import type { ApiObject } from '../object/api-object.ts';
import { textAt } from '../object/json.ts';
import { type ApiResource, type ResourceRow, resourceOf, type SelectableFields } from '../resource/resource.ts';
import { admissionBindingStrategy, admissionPolicyStrategy } from '../strategies/admission-strategy.ts';
import { customResourceDefinitionStrategy } from '../strategies/crd-strategy.ts';
import { endpointSliceStrategy } from '../strategies/endpoint-slice-strategy.ts';
import { networkPolicyStrategy } from '../strategies/network-policy-strategy.ts';
import { podStrategy } from '../strategies/pod-strategy.ts';
import { serviceStrategy } from '../strategies/service/service-strategy.ts';
import { namespaceStrategy, nodeStrategy, secretStrategy, workloadStrategy } from '../strategies/small-strategies.ts';
import {
  configMapColumns,
  endpointsColumns,
  eventColumns,
  namespaceColumns,
  nodeColumns,
  podColumns,
  secretColumns,
  serviceAccountColumns,
  serviceColumns,
} from './columns-core.ts';
import {
  bindingColumns,
  createdAtColumns,
  daemonSetColumns,
  deploymentColumns,
  endpointSliceColumns,
  leaseColumns,
  networkPolicyColumns,
  replicaSetColumns,
} from './columns-groups.ts';
import { eventFromCore, eventToCore } from './event-conversion.ts';

const status = ['status'] as const;
const all = ['all'] as const;

function fieldsAt(...paths: readonly string[]): SelectableFields {
  return Object.fromEntries(paths.map((path) => [path, (object: ApiObject) => textAt(object, ...path.split('.'))]));
}

function referenceFields(name: string, { also = [] }: { readonly also?: readonly string[] } = {}): SelectableFields {
  const parts = ['kind', 'namespace', 'name', 'uid', 'apiVersion', 'resourceVersion', 'fieldPath'];
  return fieldsAt(...parts.map((part) => `${name}.${part}`), ...also);
}

const coreRows: readonly ResourceRow[] = [
  { kind: 'ConfigMap', plural: 'configmaps', namespaced: true, shortNames: ['cm'], columns: configMapColumns },
  { kind: 'Endpoints', plural: 'endpoints', singular: 'endpoints', namespaced: true, shortNames: ['ep'], columns: endpointsColumns },
  {
    kind: 'Event',
    plural: 'events',
    namespaced: true,
    model: 'CoreV1Event',
    shortNames: ['ev'],
    columns: eventColumns,
    fields: referenceFields('involvedObject', { also: ['reason', 'type', 'source', 'reportingComponent'] }),
  },
  {
    kind: 'Namespace',
    plural: 'namespaces',
    namespaced: false,
    shortNames: ['ns'],
    subresources: ['status', 'finalize'],
    nameRule: 'label',
    columns: namespaceColumns,
    fields: fieldsAt('status.phase'),
    strategy: namespaceStrategy,
  },
  {
    kind: 'Node',
    plural: 'nodes',
    namespaced: false,
    shortNames: ['no'],
    subresources: status,
    columns: nodeColumns,
    fields: fieldsAt('spec.unschedulable'),
    strategy: nodeStrategy,
  },
  {
    kind: 'Pod',
    plural: 'pods',
    namespaced: true,
    shortNames: ['po'],
    categories: all,
    subresources: ['status', 'binding', 'eviction'],
    generation: true,
    columns: podColumns,
    fields: {
      ...fieldsAt(
        'spec.nodeName',
        'spec.restartPolicy',
        'spec.schedulerName',
        'spec.serviceAccountName',
        'status.phase',
        'status.podIP',
        'status.nominatedNodeName',
      ),
      // As in Kubernetes: false if the pod omits it.
      'spec.hostNetwork': (object) => textAt(object, 'spec', 'hostNetwork') || 'false',
    },
    strategy: podStrategy,
    graceful: true,
  },
  { kind: 'Secret', plural: 'secrets', namespaced: true, columns: secretColumns, fields: fieldsAt('type'), strategy: secretStrategy },
  {
    kind: 'Service',
    plural: 'services',
    namespaced: true,
    shortNames: ['svc'],
    categories: all,
    subresources: status,
    nameRule: 'service',
    columns: serviceColumns,
    fields: fieldsAt('spec.clusterIP', 'spec.type'),
    strategy: serviceStrategy,
  },
  { kind: 'ServiceAccount', plural: 'serviceaccounts', namespaced: true, shortNames: ['sa'], columns: serviceAccountColumns },
];

const appsRows: readonly ResourceRow[] = [
  { kind: 'DaemonSet', plural: 'daemonsets', namespaced: true, shortNames: ['ds'], columns: daemonSetColumns },
  { kind: 'Deployment', plural: 'deployments', namespaced: true, shortNames: ['deploy'], columns: deploymentColumns },
  { kind: 'ReplicaSet', plural: 'replicasets', namespaced: true, shortNames: ['rs'], columns: replicaSetColumns },
].map((row) => ({ ...row, group: 'apps', categories: all, subresources: status, generation: true, strategy: workloadStrategy }));

const rbacRows: readonly ResourceRow[] = [
  { kind: 'ClusterRole', plural: 'clusterroles', namespaced: false, columns: createdAtColumns },
  { kind: 'ClusterRoleBinding', plural: 'clusterrolebindings', namespaced: false, columns: bindingColumns },
  { kind: 'Role', plural: 'roles', namespaced: true, columns: createdAtColumns },
  { kind: 'RoleBinding', plural: 'rolebindings', namespaced: true, columns: bindingColumns },
].map((row) => ({ ...row, group: 'rbac.authorization.k8s.io', nameRule: 'segment' as const }));

const otherRows: readonly ResourceRow[] = [
  {
    group: 'admissionregistration.k8s.io',
    kind: 'ValidatingAdmissionPolicy',
    plural: 'validatingadmissionpolicies',
    namespaced: false,
    subresources: status,
    generation: true,
    columns: createdAtColumns,
    strategy: admissionPolicyStrategy,
  },
  {
    group: 'admissionregistration.k8s.io',
    kind: 'ValidatingAdmissionPolicyBinding',
    plural: 'validatingadmissionpolicybindings',
    namespaced: false,
    columns: createdAtColumns,
    strategy: admissionBindingStrategy,
  },
  {
    group: 'apiextensions.k8s.io',
    kind: 'CustomResourceDefinition',
    plural: 'customresourcedefinitions',
    namespaced: false,
    shortNames: ['crd', 'crds'],
    subresources: status,
    generation: true,
    columns: createdAtColumns,
    strategy: customResourceDefinitionStrategy,
  },
  {
    group: 'flowcontrol.apiserver.k8s.io',
    kind: 'FlowSchema',
    plural: 'flowschemas',
    namespaced: false,
    subresources: status,
    generation: true,
    columns: createdAtColumns,
  },
  {
    group: 'scheduling.k8s.io',
    kind: 'PriorityClass',
    plural: 'priorityclasses',
    namespaced: false,
    shortNames: ['pc'],
    columns: createdAtColumns,
  },
  { group: 'coordination.k8s.io', kind: 'Lease', plural: 'leases', namespaced: true, columns: leaseColumns },
  {
    group: 'discovery.k8s.io',
    kind: 'EndpointSlice',
    plural: 'endpointslices',
    namespaced: true,
    generation: true,
    columns: endpointSliceColumns,
    strategy: endpointSliceStrategy,
  },
  {
    group: 'events.k8s.io',
    kind: 'Event',
    plural: 'events',
    namespaced: true,
    model: 'EventsV1Event',
    storage: 'events',
    shortNames: ['ev'],
    columns: eventColumns.map((column) => ({ ...column, cell: (object, nowMs) => column.cell(eventToCore(object), nowMs) })),
    fields: referenceFields('regarding', { also: ['reason', 'type', 'reportingController'] }),
    toStored: eventToCore,
    fromStored: eventFromCore,
  },
  {
    group: 'networking.k8s.io',
    kind: 'NetworkPolicy',
    plural: 'networkpolicies',
    namespaced: true,
    shortNames: ['netpol'],
    generation: true,
    columns: networkPolicyColumns,
    strategy: networkPolicyStrategy,
  },
];

/** Every built-in kind the lab's API server serves. */
export const builtInResources: readonly ApiResource[] = [...coreRows, ...appsRows, ...rbacRows, ...otherRows].map(resourceOf);
