/** `npm run release:manifest`: manifest and chart with the digests of the images that were pushed; pushes the chart as an OCI artefact. */
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseDocument } from 'yaml';
import { builtProgram } from '../go/programs.mjs';
import { builtHelm } from '../helm/program.mjs';
import { asked } from '../manifests/asked.ts';
import { manifestText } from '../manifests/manifest.ts';
import { root } from '../setup/paths.mjs';
import { commonRows, type OptionValues } from './options.ts';
import { byDigest, filesFolder, fromCaller, packageVersion, pushedImages, readRecord, writeRecord } from './record.ts';
import { type Runner, runStep } from './step.ts';

type Values = OptionValues<keyof typeof commonRows>;

interface ImageReferences {
  readonly agentImage: string;
  readonly ovsImage: string;
}

async function main(values: Values, runner: Runner): Promise<void> {
  const registry = values.text('registry');
  const out = fromCaller(values.text('out'));
  const record = readRecord(out);
  const { agent, ovs } = pushedImages(record, runner.isDry ? registry : undefined);
  const images = { agentImage: byDigest(agent), ovsImage: byDigest(ovs) };
  const files = filesFolder(out);
  if (!runner.isDry) mkdirSync(files, { recursive: true });
  for (const [name, more] of [
    ['seine.yaml', []],
    ['uninstall.yaml', ['--uninstall']],
  ] as const)
    writeManifest(join(files, name), images, more, runner);
  const repository = `${registry}/charts/seine`;
  const digest = await publishChart(registry, images, { values, runner, files });
  if (record === undefined || runner.isDry) return;
  writeRecord(out, { ...record, chart: { repository, digest } });
  runner.note(`pushed: ${repository}@${digest}`);
}

function writeManifest(file: string, { agentImage, ovsImage }: ImageReferences, more: readonly string[], runner: Runner): void {
  if (runner.isDry) {
    runner.note(`would write: ${file}, with ${agentImage} and ${ovsImage}`);
    return;
  }
  const chosen = asked(['--agent-image', agentImage, '--ovs-image', ovsImage, ...more]);
  if (chosen === undefined) throw new Error('render printed its help');
  writeFileSync(file, `${manifestText(chosen.parts(chosen.options))}\n`);
  runner.note(file);
}

interface ChartContext {
  readonly values: Values;
  readonly runner: Runner;
  readonly files: string;
}

/** Packages a copy of the chart whose default values name the images, and pushes it. @returns its digest in the registry */
async function publishChart(registry: string, images: ImageReferences, { values, runner, files }: ChartContext): Promise<string> {
  const helm = runner.isDry ? 'helm' : await builtHelm();
  const crane = runner.isDry ? 'crane' : await builtProgram('crane');
  const version = packageVersion();
  const archive = join(files, `seine-${version}.tgz`);
  const work = mkdtempSync(join(tmpdir(), 'seine-chart-'));
  try {
    const chart = join(work, 'seine');
    cpSync(join(root, 'build', 'helm', 'seine'), chart, { recursive: true });
    writeFileSync(join(chart, 'values.yaml'), withImages(readFileSync(join(chart, 'values.yaml'), 'utf8'), images));
    const seconds = commitTime();
    settleTimes(chart, seconds);
    await runner.run(helm, ['lint', '--strict', chart], { isQuiet: true });
    await runner.run(helm, ['package', chart, '--destination', files]);
    // Helm writes the time of the archive into the artefact.
    if (!runner.isDry) utimesSync(archive, seconds, seconds);
    const plain = values.flag('plain-http');
    await runner.run(helm, ['push', archive, `oci://${registry}/charts`, ...(plain ? ['--plain-http'] : [])], { isQuiet: true });
    const reference = `${registry}/charts/seine:${version}`;
    return (await runner.run(crane, ['digest', ...(plain ? ['--insecure'] : []), reference])).trim();
  } finally {
    rmSync(work, { recursive: true });
  }
}

/** Seconds since 1970 of the commit that is checked out. */
function commitTime(): number {
  return Number(execFileSync('git', ['-c', `safe.directory=${root}`, '-C', root, 'show', '--no-patch', '--format=%ct', 'HEAD']));
}

/** Gives all files one time: Helm packs their times, and a second run has to push the same chart. */
function settleTimes(folder: string, seconds: number): void {
  for (const name of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
    const path = join(folder, name);
    if (statSync(path).isFile()) utimesSync(path, seconds, seconds);
  }
}

/** The text of `values.yaml` with other defaults for the images; comments and order stay. */
function withImages(text: string, images: ImageReferences): string {
  const document = parseDocument(text);
  for (const [key, value] of Object.entries(images)) {
    if (document.get(key) !== '') throw new Error(`values.yaml has no empty ${key}`);
    document.set(key, value);
  }
  return document.toString({ lineWidth: 0 });
}

await runStep({
  name: 'release:manifest',
  about: 'renders manifest and chart with the digests of pushed images, and pushes the chart',
  rows: commonRows,
  run: main,
});
