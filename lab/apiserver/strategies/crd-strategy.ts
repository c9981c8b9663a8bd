import type { CustomResourceDefinitionSpec } from 'kubernetes-types/apiextensions/v1.d.ts';
import { ensureObject, equalJson } from '../object/json.ts';
import type { Strategy } from '../resource/resource.ts';

/** Finalizer that keeps a definition until its objects are deleted. */
export const cleanupFinalizer = 'customresourcecleanup.apiextensions.k8s.io';

export const customResourceDefinitionStrategy: Strategy = {
  defaults: (draft, old) => {
    const spec = ensureObject(draft, 'spec');
    spec['conversion'] ??= { strategy: 'None' };
    const names = ensureObject(spec, 'names');
    const kind = String(names['kind'] ?? '');
    if (!names['singular']) names['singular'] = kind.toLowerCase();
    if (!names['listKind']) names['listKind'] = `${kind}List`;
    if (old === undefined) draft.metadata.finalizers = [...(draft.metadata.finalizers ?? []), cleanupFinalizer];
  },
  validate: (object, old, errors) => {
    const { group, names, scope, versions } = object.spec as CustomResourceDefinitionSpec;
    const wanted = `${names.plural}.${group}`;
    if (object.metadata.name !== wanted) errors.invalid('metadata.name', object.metadata.name, `must be spec.names.plural+"."+spec.group`);
    if (!group.includes('.')) errors.invalid('spec.group', group, 'should be a domain with at least one dot');
    if (scope !== 'Cluster' && scope !== 'Namespaced') errors.notSupported('spec.scope', scope, ['Cluster', 'Namespaced']);
    if (versions.filter(({ storage }) => storage).length !== 1)
      errors.invalid('spec.versions', '', 'must have exactly one version marked as storage version');
    versions.forEach(({ schema }, index) => {
      const root = schema?.openAPIV3Schema;
      if (root === undefined) errors.required(`spec.versions[${index}].schema.openAPIV3Schema`, 'schemas are required');
      else if (root.type !== 'object')
        errors.required(`spec.versions[${index}].schema.openAPIV3Schema.type`, 'must not be empty at the root');
    });
    if (old === undefined) return;
    const before = old.spec as CustomResourceDefinitionSpec;
    if (before.scope !== scope) errors.immutable('spec.scope', scope);
    if (!equalJson(before.names.kind, names.kind)) errors.immutable('spec.names.kind', names.kind);
  },
};
