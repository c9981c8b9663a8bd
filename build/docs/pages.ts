import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import userspace from '../../test/fixtures/data-paths/netdev.json' with { type: 'json' };
import kernel from '../../test/fixtures/data-paths/system.json' with { type: 'json' };
import { chartFiles } from '../manifests/chart.ts';
import { manifestParts, manifestText, uninstallParts } from '../manifests/manifest.ts';
import { defaultOptions } from '../manifests/options.ts';
import { dashboardJson } from '../observability/dashboard.ts';
import { areasPicture } from './areas-picture.ts';
import { configurationTables, switchesList } from './configuration-tables.ts';
import { conformancePage } from './conformance-page.ts';
import { dataPathsTable } from './datapaths-page.ts';
import { dropsTable } from './drops-table.ts';
import { heldStatesTable } from './held-states-table.ts';
import { capabilitiesTable, hostPathsTable, objectsTable, permissionsTable } from './install-blocks.ts';
import { lintCodesTable } from './lint-codes-table.ts';
import { checksTable, kernelSettingsTable, metricsTable, problemsTable } from './operations-blocks.ts';
import { pipelinePage } from './pipeline-page.ts';
import { alertsTable, commandSections, pathsTable } from './reference-blocks.ts';
import { pinnedTable } from './versions-blocks.ts';

const root = join(import.meta.dirname, '..', '..');

export interface Page {
  readonly path: string;
  readonly text: string;
  /** False if the file differs from the generated text. */
  readonly fresh: boolean;
}

/** Every page that is generated, whole or in part. */
export function generatedPages(): Page[] {
  const architecture = join(root, 'docs', 'design', 'architecture.md');
  const operations = join(root, 'docs', 'operations.md');
  const reliability = join(root, 'docs', 'reliability.md');
  const dataPaths = join(root, 'docs', 'data-paths.md');
  const features = join(root, 'docs', 'feature-matrix.md');
  const configuration = join(root, 'docs', 'configuration.md');
  const policyTesting = join(root, 'docs', 'policy-testing.md');
  const install = join(root, 'docs', 'installation', 'manifest.md');
  const installBlocks = {
    objects: objectsTable,
    capabilities: capabilitiesTable,
    'host paths': hostPathsTable,
    permissions: permissionsTable,
  };
  const installPage = Object.entries(installBlocks).reduce(
    (text, [name, table]) => withBlock(text, name, table()),
    readFileSync(install, 'utf8'),
  );
  const configurationPage = Object.entries({ ...configurationTables(), switches: switchesList() }).reduce(
    (text, [name, block]) => withBlock(text, name, block),
    readFileSync(configuration, 'utf8'),
  );
  return [
    page(install, installPage),
    page(operations, withBlock(readFileSync(operations, 'utf8'), 'kernel settings', kernelSettingsTable())),
    ...referencePages(),
    page(join(root, 'build', 'manifests', 'seine.yaml'), `${manifestText(manifestParts(defaultOptions))}\n`),
    page(join(root, 'build', 'manifests', 'uninstall.yaml'), `${manifestText(uninstallParts(defaultOptions))}\n`),
    ...Object.entries(chartFiles()).map(([path, text]) => page(join(root, 'build', 'helm', 'seine', path), text)),
    page(configuration, configurationPage),
    page(dataPaths, withBlock(readFileSync(dataPaths, 'utf8'), 'data paths', dataPathsTable(kernel, userspace))),
    page(reliability, withBlock(readFileSync(reliability, 'utf8'), 'held states', heldStatesTable())),
    page(policyTesting, withBlock(readFileSync(policyTesting, 'utf8'), 'lint codes', lintCodesTable())),
    page(features, withBlock(readFileSync(features, 'utf8'), 'pinned', pinnedTable())),
    page(join(root, 'docs', 'design', 'pipeline.md'), pipelinePage()),
    page(join(root, 'docs', 'records', 'conformance.md'), conformancePage()),
    page(join(root, 'build', 'observability', 'dashboard.json'), dashboardJson()),
    page(architecture, withBlock(readFileSync(architecture, 'utf8'), 'areas', areasPicture())),
  ];
}

/** Pages of `docs/reference`: their prose is handwritten, their blocks come from the program. */
function referencePages(): readonly Page[] {
  return [
    reference('seinectl', { commands: commandSections, problems: problemsTable, checks: checksTable }),
    reference('api', { paths: pathsTable }),
    reference('metrics', { metrics: metricsTable }),
    reference('alerts', { alerts: alertsTable }),
    reference('drops', { drops: dropsTable }),
  ];
}

function reference(name: string, blocks: Readonly<Record<string, () => string>>): Page {
  const path = join(root, 'docs', 'reference', `${name}.md`);
  const text = Object.entries(blocks).reduce((all, [block, make]) => withBlock(all, block, make()), readFileSync(path, 'utf8'));
  return page(path, text);
}

function page(path: string, text: string): Page {
  return { path, text, fresh: existsSync(path) && readFileSync(path, 'utf8') === text };
}

/** Replaces the text between `<!-- NAME -->` and `<!-- end of NAME -->`. */
function withBlock(text: string, name: string, block: string): string {
  const [start, end] = [`<!-- ${name} -->`, `<!-- end of ${name} -->`];
  const [before, rest] = text.split(start);
  const [, after] = rest?.split(end) ?? [];
  if (before === undefined || after === undefined) throw new Error(`no block "${name}" in this page`);
  return `${before}${start}\n\n${block}\n\n${end}${after}`;
}
