import { Document, isMap, isNode, isScalar, isSeq, type Node } from 'yaml';
import { access } from './access.ts';
import { admissionPolicies } from './admission.ts';
import { agentDaemonSet } from './agent-daemon-set.ts';
import { cleanupDaemonSet } from './cleanup-daemon-set.ts';
import { agentConfiguration, home, liveSettings } from './configuration.ts';
import { monitoring } from './monitoring.ts';
import type { ManifestOptions } from './options.ts';
import { ovsDaemonSet } from './ovs-daemon-set.ts';
import type { Part } from './part.ts';

/** Every installed object, in the order of installation. */
export function manifestParts(options: ManifestOptions): Part[] {
  const settings = [home, agentConfiguration(options), liveSettings(options)];
  return [...settings, ...access(options), ...admissionPolicies(), ovsDaemonSet(options), agentDaemonSet(options), ...monitoring(options)];
}

/** Objects of which each pool has its own. All others belong to the cluster, and are rendered once, without a pool. */
export function poolParts(options: ManifestOptions): Part[] {
  return [agentConfiguration(options), ...(options.pool?.ovs ? [ovsDaemonSet(options)] : []), agentDaemonSet(options)];
}

/** Objects that remove it from the nodes. */
export function uninstallParts(options: ManifestOptions): Part[] {
  return [cleanupDaemonSet(options)];
}

const head = [
  '# Seine. docs/installation/manifest.md explains each object; docs/installation/uninstall.md explains the removal.',
  '# Rendered by `npm run render`: change build/manifests/*.ts, not this file.',
];

/** The manifest as YAML, each permission preceded by its reason. */
export function manifestText(parts: readonly Part[]): string {
  return [...head, documentsText(parts)].join('\n');
}

/** The same without the head of a manifest. */
export function documentsText(parts: readonly Part[]): string {
  return parts.map(documentText).join('\n');
}

function documentText({ object, about, notes = [] }: Part): string {
  const document = new Document(object, { aliasDuplicateObjects: false });
  for (const [path, text] of notes) {
    const node = entryAt(document, path);
    if (node === undefined) throw new Error(`no ${path.join('.')} in ${object.kind} ${object.metadata?.name}`);
    node.commentBefore = commentLines(text);
  }
  const comment = about
    .split('\n')
    .map((line) => `# ${line}`)
    .join('\n');
  return `---\n${comment}\n${document.toString({ lineWidth: 0, indentSeq: false })}`.trimEnd();
}

/** The node before which a comment on `path` belongs: an item of a list, or a key of a map. */
function entryAt(document: Document, path: readonly (string | number)[]): Node | undefined {
  const parent = document.getIn(path.slice(0, -1), true);
  const key = path.at(-1);
  if (isSeq(parent)) {
    const item = parent.items[Number(key)];
    return isNode(item) ? item : undefined;
  }
  const pair = isMap(parent) ? parent.items.find((each) => isScalar(each.key) && each.key.value === key) : undefined;
  return isNode(pair?.key) ? pair.key : undefined;
}

function commentLines(text: string): string {
  return text
    .split('\n')
    .map((line) => ` ${line}`)
    .join('\n');
}
