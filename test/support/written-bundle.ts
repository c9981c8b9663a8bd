import type { ClusterObjectsLine } from '../../src/api/cluster-objects.ts';
import { seineVersion } from '../../src/api/version.ts';
import { inputsName, objectsName, policyEvidenceName } from '../../src/operations/support-bundle/agent-files.ts';
import { ArchiveWriter } from '../../src/operations/support-bundle/archive.ts';
import { bundleFormat, type Manifest, manifestName } from '../../src/operations/support-bundle/manifest.ts';
import type { ForwardedObjects } from '../../src/policy/verify/forwarding-reference/forwarded-objects.ts';

export { inputsName, objectsName, policyEvidenceName };

/** Writes a support bundle with some files. @param seine version that its manifest names @param parts outcome of files that it lacks */
export async function writeBundle(
  path: string,
  files: Readonly<Record<string, string>>,
  { seine = seineVersion, node = 'n1', parts = [] }: Partial<Pick<Manifest, 'seine' | 'node' | 'parts'>> = {},
): Promise<string> {
  const archive = new ArchiveWriter(path, 'seine');
  for (const [name, text] of Object.entries(files)) await archive.add(name, Buffer.from(text));
  const whole = Object.entries(files).map(([name, text]) => ({ name, state: 'whole' as const, bytes: text.length, tookMs: 1 }));
  const times = { begun: '2026-11-29T22:00:00.000Z', ended: '2026-11-29T22:00:05.000Z' };
  const manifest: Manifest = { format: bundleFormat, seine, node, ...times, parts: [...whole, ...parts] };
  await archive.add(manifestName, Buffer.from(JSON.stringify(manifest)));
  await archive.close();
  return path;
}

/** Objects as `/v1/policy/evidence` has them. */
export function evidenceText({ services: _, slices: __, ...objects }: ForwardedObjects): string {
  const all = Object.entries(objects).flatMap(([of, list]) =>
    (list as readonly unknown[]).map((object) => ({ kind: 'object', of, object })),
  );
  return linesOf([...all, { kind: 'end' }]);
}

/** Objects as `/v1/objects` has them. */
export function servedText(
  { services, slices }: Pick<ForwardedObjects, 'services' | 'slices'>,
  last: ClusterObjectsLine = { kind: 'end' },
): string {
  return linesOf([
    {
      kind: 'object',
      of: 'liveSettings',
      object: { metadata: { namespace: 'seine-system', name: 'seine-live' }, data: { 'policy.mode': 'audit' } },
    },
    ...services.map((object) => ({ kind: 'object', of: 'services', object })),
    ...slices.map((object) => ({ kind: 'object', of: 'slices', object })),
    last,
  ]);
}

function linesOf(lines: readonly unknown[]): string {
  return lines.map((line) => `${JSON.stringify(line)}\n`).join('');
}
