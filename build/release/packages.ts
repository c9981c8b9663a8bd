/**
 * `npm run release:packages`: packs the libraries and `seinectl` for npm, tries to publish them without publishing, and publishes with
 * `--publish`.
 */
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { z } from 'zod';
import { dist } from '../setup/paths.mjs';
import { commonRows, type OptionRows, type OptionValues } from './options.ts';
import { filesFolder, fromCaller } from './record.ts';
import { type Runner, runStep } from './step.ts';

const rows = {
  out: commonRows.out,
  scope: {
    value: '@SCOPE',
    env: 'SEINE_NPM_SCOPE',
    about: 'npm scope in front of the names of the packages',
    expects: (text: string) => (/^@[a-z0-9][a-z0-9._-]*$/.test(text) ? undefined : '@SCOPE in lower case'),
  },
  'npm-registry': {
    value: 'URL',
    env: 'SEINE_NPM_REGISTRY',
    about: 'npm registry; that of npm’s own settings if absent',
    expects: (text: string) => (/^https?:$/.test(URL.parse(text)?.protocol ?? '') ? undefined : 'a URL of http or https'),
  },
  repository: {
    value: 'URL',
    env: 'SEINE_REPOSITORY_URL',
    about: 'source repository in the packages; npm compares it with the provenance',
    expects: (text: string) => (/^(?:git\+)?https:$/.test(URL.parse(text)?.protocol ?? '') ? undefined : 'a URL of https'),
  },
  publish: { about: 'publish; otherwise `npm publish --dry-run` reports what it would do' },
  provenance: { about: 'publish with npm’s provenance; in a workflow of GitHub or GitLab' },
} as const satisfies OptionRows;
type Values = OptionValues<keyof typeof rows>;

const packages = ['ovsdb', 'openflow', 'seinectl'] as const;

async function main(values: Values, runner: Runner): Promise<void> {
  const files = filesFolder(fromCaller(values.text('out')));
  const work = mkdtempSync(join(tmpdir(), 'seine-packages-'));
  try {
    if (!runner.isDry) mkdirSync(files, { recursive: true });
    for (const name of packages) await pack(name, { values, runner, files, work });
  } finally {
    rmSync(work, { recursive: true });
  }
}

interface PackageContext {
  readonly values: Values;
  readonly runner: Runner;
  readonly files: string;
  readonly work: string;
}

async function pack(name: (typeof packages)[number], { values, runner, files, work }: PackageContext): Promise<void> {
  const folder = join(work, name);
  cpSync(join(dist, 'packages', name), folder, { recursive: true });
  const manifest = publishedManifest(join(folder, 'package.json'), values);
  const archive = join(files, `${manifest.name.replace('@', '').replace('/', '-')}-${manifest.version}.tgz`);
  await runner.run('npm', ['pack', folder, '--pack-destination', files], { isQuiet: true });
  const registry = values.optional('npm-registry');
  const where = registry === undefined ? [] : ['--registry', registry];
  const how = values.flag('publish') ? (values.flag('provenance') ? ['--provenance'] : []) : ['--dry-run'];
  await runner.run('npm', ['publish', archive, '--access', 'public', ...where, ...how], { isQuiet: true });
  if (!runner.isDry) runner.note(`${values.flag('publish') ? 'published' : 'packed'}: ${manifest.name} ${manifest.version}, ${archive}`);
}

const manifestSchema = z.looseObject({ name: z.string(), version: z.string() });

/** Writes the manifest as it is published: npm publishes no package that is private. */
function publishedManifest(file: string, values: Values): z.infer<typeof manifestSchema> {
  const { private: _, ...manifest } = manifestSchema.parse(JSON.parse(readFileSync(file, 'utf8')));
  const scope = values.optional('scope');
  const url = values.optional('repository');
  const published = {
    ...manifest,
    name: scope === undefined ? manifest.name : `${scope}/${manifest.name}`,
    ...(url && { repository: { type: 'git', url } }),
  };
  writeFileSync(file, `${JSON.stringify(published, null, 2)}\n`);
  return published;
}

await runStep({ name: 'release:packages', about: 'packs libraries and seinectl for npm, and publishes them', rows, run: main });
