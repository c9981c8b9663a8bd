import { parseArgs } from 'node:util';
import { recordedReleases } from './test-run/releases.mjs';
import { runTests } from './test-run/run-tests.mjs';

const releasesMost = 3;
const help = `npm run test:upgrade [-- options]: this version and earlier ones on one node, under traffic, in both directions; each earlier one is
built from the history, with the lock file that is kept of it (test/fixtures/releases)

  --release VERSION  this one alone; the last ${releasesMost} if absent, one after the other
  -h, --help         this text
`;

const options = { release: { type: 'string' }, help: { type: 'boolean', short: 'h' } };
const released = recordedReleases();

function parsed() {
  try {
    const { values } = parseArgs({ options });
    if (values.release !== undefined && !released.includes(values.release))
      throw new Error(`--release ${values.release}: there are ${released.join(', ')}`);
    return values;
  } catch (error) {
    process.stderr.write(`test:upgrade: ${error.message}\n\n${help}`);
    process.exit(2);
  }
}

const { release, help: asked } = parsed();
if (asked) process.stdout.write(help);
else {
  const failed = [];
  for (const version of release === undefined ? released.slice(0, releasesMost) : [release]) {
    console.log(`\n▶ ${version} and this version`);
    if ((await runTests(['--project', 'upgrade'], { ...process.env, SEINE_TEST_RELEASE: version })) !== 0) failed.push(version);
  }
  if (failed.length > 0) console.log(`\nfailed with ${failed.join(', ')}; \`npm run test:upgrade -- --release VERSION\` repeats one`);
  process.exitCode = failed.length === 0 ? 0 : 1;
}
