import { parseArgs } from 'node:util';
import { runTests } from './test-run/run-tests.mjs';

const help = `npm run test:policy [-- options]: policy, as much of it as takes an hour or two; \`npm test\` does a part

  --seed N      repeat a run that printed this seed
  --sets N      random clusters that change (10000)
  --adds N      pods that nobody may talk to, talked to before they are there (10000)
  --short       100 clusters and 50 pods, as in \`npm test\`
  -h, --help    this text
`;

const options = { seed: { type: 'string' }, sets: { type: 'string' }, adds: { type: 'string' }, short: { type: 'boolean' } };

/** @returns {string | undefined} a whole number as it was given */
function number(name, text) {
  if (text === undefined || /^\d+$/.test(text)) return text;
  process.stderr.write(`test:policy: --${name}: a whole number is wanted, not ${JSON.stringify(text)}\n`);
  process.exit(2);
}

function parsed() {
  try {
    return parseArgs({ options: { ...options, help: { type: 'boolean', short: 'h' } } }).values;
  } catch (error) {
    process.stderr.write(`test:policy: ${error.message}\n\n${help}`);
    process.exit(2);
  }
}

const { seed, sets, adds, short, help: asked } = parsed();
if (asked) process.stdout.write(help);
else {
  const env = {
    ...process.env,
    SEINE_TEST_POLICY_SETS: number('sets', sets) ?? (short ? '100' : '10000'),
    SEINE_TEST_POLICY_MUTANTS: short ? '60' : '1000',
    SEINE_TEST_POLICY_ADDS: number('adds', adds) ?? (short ? '50' : '10000'),
    ...(seed === undefined ? {} : { SEINE_TEST_SEED: number('seed', seed) }),
  };
  process.exitCode = await runTests(['polic'], env);
}
