/** `npm run release:publish`: the files of the release and its notes as a release of the repository on GitHub, with GitHub's own client. */
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { commonRows, type OptionRows, type OptionValues } from './options.ts';
import { filesFolder, fromCaller } from './record.ts';
import { type Runner, runStep } from './step.ts';

const rows = {
  tag: {
    value: 'vX.Y.Z',
    env: 'SEINE_TAG',
    about: 'tag of the release, which is pushed already',
    expects: (text: string) => (/^v\d+\.\d+\.\d+$/.test(text) ? undefined : 'vX.Y.Z, such as v1.2.3'),
  },
  repository: {
    value: 'OWNER/NAME',
    env: 'GITHUB_REPOSITORY',
    about: 'repository on GitHub; `gh` reads its token from GH_TOKEN',
    expects: (text: string) => (/^[\w.-]+\/[\w.-]+$/.test(text) ? undefined : 'OWNER/NAME'),
  },
  out: commonRows.out,
} as const satisfies OptionRows;

async function main(values: OptionValues<keyof typeof rows>, runner: Runner): Promise<void> {
  const out = fromCaller(values.text('out'));
  const [folder, notes] = [filesFolder(out), join(out, 'notes.md')];
  const tag = values.text('tag');
  const files = existsSync(folder) ? readdirSync(folder).toSorted() : [];
  if (!runner.isDry) {
    if (!files.includes('SHA256SUMS.sigstore.json'))
      throw new Error(`${folder} has no SHA256SUMS.sigstore.json: run \`npm run release:sign\` first`);
    if (!existsSync(notes)) throw new Error(`${notes} is missing: run \`npm run release:check\` first`);
  }
  const paths = files.map((name) => join(folder, name));
  const how = ['--repo', values.text('repository'), '--verify-tag', '--title', tag, '--notes-file', notes];
  await runner.run('gh', ['release', 'create', tag, ...how, ...paths]);
}

await runStep({ name: 'release:publish', about: 'makes a release on GitHub with the files', rows, run: main });
