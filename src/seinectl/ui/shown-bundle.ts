import { SeineError } from '../../base/errors/seine-error.ts';
import { dropsName, flowSummaryName, podsName, servicesName, statusName } from '../../operations/support-bundle/agent-files.ts';
import { readArchive } from '../../operations/support-bundle/archive.ts';
import { historyEventsName } from '../../operations/support-bundle/history-files.ts';
import { type Manifest, manifestName, parseManifest } from '../../operations/support-bundle/manifest.ts';

/** Files of a bundle that views show as they are. */
const viewFiles = {
  status: statusName,
  drops: dropsName,
  pods: podsName,
  services: servicesName,
  flows: flowSummaryName,
  events: historyEventsName,
} as const;
export type ViewFile = keyof typeof viewFiles;

/** Answers of an agent in a support bundle. */
export interface BundleAnswers {
  readonly path: string;
  readonly manifest: Manifest;
  readonly node: string;
  /** Text of a file; undefined if the bundle does not have it whole. */
  readonly textOf: (file: ViewFile) => string | undefined;
  /** Reason why a file is missing. */
  readonly lackOf: (file: ViewFile) => string;
}

/** Reads the answers in a support bundle. @throws SeineError `INVALID_INPUT` if it is not one, or has no manifest */
export async function readAnswers(path: string): Promise<BundleAnswers> {
  const names: readonly string[] = [manifestName, ...Object.values(viewFiles)];
  const files = await readArchive(path, (name) => names.includes(name));
  const text = (name: string): string | undefined => {
    const bytes = files.get(name);
    return bytes && Buffer.from(bytes).toString('utf8');
  };
  const written = text(manifestName);
  if (written === undefined) throw new SeineError('INVALID_INPUT', `${path} has no ${manifestName}`);
  const manifest = parseManifest(written);
  const partOf = (file: ViewFile) => manifest.parts.find(({ name }) => name === viewFiles[file]);
  return {
    path,
    manifest,
    node: manifest.node,
    textOf: (file) => (partOf(file)?.state === 'cut' && file !== 'events' ? undefined : text(viewFiles[file])),
    lackOf: (file) => {
      const reason = partOf(file)?.reason ?? `it was collected by Seine ${manifest.seine}, which did not keep it`;
      return `the bundle of ${manifest.node} has no ${viewFiles[file]}: ${reason}`;
    },
  };
}

/** Failure of a view without data. @param view its title */
export function absentView(view: string, reasons: readonly string[]): SeineError {
  return new SeineError('UNAVAILABLE', `${view}: ${reasons.join('; ')}`, { context: { absent: true } });
}
