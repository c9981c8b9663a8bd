import { agentGrants, type Grants, installGrants, ovsGrants, permissions, reviewPermissions } from '../manifests/grants.ts';
import { manifestParts } from '../manifests/manifest.ts';
import { defaultOptions } from '../manifests/options.ts';

/** Every object of the manifest with its reason. */
export function objectsTable(): string {
  const rows = manifestParts(defaultOptions).map(({ object, about }) => {
    const { name, namespace } = object.metadata ?? {};
    return `| ${object.kind} | \`${namespace === undefined ? '' : `${namespace}/`}${name}\` | ${oneLine(about)} |`;
  });
  return ['| Kind | Name | Why |', '|---|---|---|', ...rows].join('\n');
}

const containers: readonly (readonly [container: string, grants: Grants])[] = [
  ['`seine-ovs`', ovsGrants(defaultOptions)],
  ['`seine-agent`', agentGrants(defaultOptions)],
  ['`install-cni`', installGrants(defaultOptions)],
];

export function capabilitiesTable(): string {
  const rows = containers.flatMap(([container, { capabilities }]) =>
    capabilities.map(({ name, why }) => `| ${container} | \`${name}\` | ${why} |`),
  );
  return ['| Container | Capability | What for |', '|---|---|---|', ...rows].join('\n');
}

export function hostPathsTable(): string {
  const rows = containers.flatMap(([container, { paths }]) =>
    paths.map(({ path, inside, propagation, readOnly, why }) => {
      const seen = inside === undefined || inside === path ? '' : `, seen as \`${inside}\``;
      return `| ${container} | \`${path}\`${seen}${readOnly ? ', read-only' : ''}${propagation === undefined ? '' : `, \`${propagation}\``} | ${why} |`;
    }),
  );
  return ['| Container | Path of the node | What for |', '|---|---|---|', ...rows].join('\n');
}

export function permissionsTable(): string {
  const rows = [...permissions, ...reviewPermissions].map(({ rule: { resources = [], verbs, apiGroups = [] }, why }) => {
    const group = apiGroups.join() === '' ? '' : ` (${apiGroups.join(', ')})`;
    return `| ${resources.join(', ')}${group} | ${verbs.join(', ')} | ${why} |`;
  });
  return ['| Resource | Verbs | What for |', '|---|---|---|', ...rows].join('\n');
}

function oneLine(text: string): string {
  return text.replaceAll('\n', ' ');
}
