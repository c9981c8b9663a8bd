import type { Registry } from '../resource/registry.ts';
import { apiVersionOf, type ResourceFacts } from '../resource/resource.ts';

/** `metav1.APIVersions`, the answer to /api. */
export function apiVersions(): object {
  return { kind: 'APIVersions', versions: ['v1'], serverAddressByClientCIDRs: [] };
}

export function apiGroupList(registry: Registry): object {
  return { kind: 'APIGroupList', apiVersion: 'v1', groups: namedGroups(registry).map(groupOf) };
}

/** `metav1.APIGroup`; undefined if no kind is in the group. */
export function apiGroup(registry: Registry, name: string): object | undefined {
  const found = namedGroups(registry).find(({ group }) => group === name);
  return found === undefined ? undefined : { kind: 'APIGroup', apiVersion: 'v1', ...groupOf(found) };
}

interface ApiGroup {
  readonly group: string;
  readonly versions: readonly string[];
}

function namedGroups(registry: Registry): readonly ApiGroup[] {
  return registry.groups().filter(({ group }) => group !== '');
}

function groupOf({ group, versions }: ApiGroup): object {
  const all = versions.map((version) => ({ groupVersion: `${group}/${version}`, version }));
  return { name: group, versions: all, preferredVersion: all[0] };
}

/** `metav1.APIResourceList`; undefined if nothing is served under the group and version. */
export function apiResourceList(registry: Registry, group: string, version: string): object | undefined {
  const served = resourcesOf(registry, group, version);
  if (served.length === 0) return undefined;
  return {
    kind: 'APIResourceList',
    apiVersion: 'v1',
    groupVersion: apiVersionOf({ group, version }),
    resources: served.flatMap(apiResources),
  };
}

function resourcesOf(registry: Registry, group: string, version: string): readonly ResourceFacts[] {
  return registry.all().filter((resource) => resource.group === group && resource.version === version);
}

const verbs = ['create', 'delete', 'deletecollection', 'get', 'list', 'patch', 'update', 'watch'];

interface Subresource {
  readonly kind: string;
  readonly group?: string;
  readonly version?: string;
  readonly verbs: readonly string[];
}

function subresourceOf(resource: ResourceFacts, name: string): Subresource {
  if (name === 'binding') return { kind: 'Binding', verbs: ['create'] };
  if (name === 'eviction') return { kind: 'Eviction', group: 'policy', version: 'v1', verbs: ['create'] };
  if (name === 'finalize') return { kind: resource.kind, verbs: ['update'] };
  return { kind: resource.kind, verbs: ['get', 'patch', 'update'] };
}

function apiResources(resource: ResourceFacts): object[] {
  const { plural, singular, namespaced, kind, shortNames, categories } = resource;
  const more = { ...(shortNames.length > 0 ? { shortNames } : {}), ...(categories.length > 0 ? { categories } : {}) };
  return [
    { name: plural, singularName: singular, namespaced, kind, verbs, ...more },
    ...resource.subresources.map((name) => ({ name: `${plural}/${name}`, singularName: '', namespaced, ...subresourceOf(resource, name) })),
  ];
}

/** `apidiscovery.k8s.io` `APIGroupDiscoveryList`: the same in one answer for /api or /apis. */
export function aggregatedDiscovery(registry: Registry, root: 'api' | 'apis', version: string): object {
  const groups = registry.groups().filter(({ group }) => (group === '') === (root === 'api'));
  return {
    kind: 'APIGroupDiscoveryList',
    apiVersion: `apidiscovery.k8s.io/${version}`,
    metadata: {},
    items: groups.map(({ group, versions }) => ({
      metadata: { ...(group === '' ? {} : { name: group }), creationTimestamp: null },
      versions: versions.map((one) => ({
        version: one,
        freshness: 'Current',
        resources: resourcesOf(registry, group, one).map(discovered),
      })),
    })),
  };
}

function discovered(resource: ResourceFacts): object {
  const { group, version, plural, singular, kind, namespaced, shortNames, categories } = resource;
  return {
    resource: plural,
    responseKind: { group, version, kind },
    scope: namespaced ? 'Namespaced' : 'Cluster',
    singularResource: singular,
    verbs,
    ...(shortNames.length > 0 ? { shortNames } : {}),
    ...(categories.length > 0 ? { categories } : {}),
    ...(resource.subresources.length > 0 ? { subresources: resource.subresources.map((name) => discoveredPart(resource, name)) } : {}),
  };
}

function discoveredPart(resource: ResourceFacts, name: string): object {
  const { kind, group = resource.group, version = resource.version, verbs: allowed } = subresourceOf(resource, name);
  return { subresource: name, responseKind: { group, version, kind }, verbs: allowed };
}
