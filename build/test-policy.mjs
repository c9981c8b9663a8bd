import { parseArgs } from 'node:util';
import { runTests } from './test-run/run-tests.mjs';

const help = `npm run test:policy [-- options]: policy, as much of it as takes some hours; \`npm test\` does a part

  --seed N      repeat a run that printed this seed
  --sets N      random clusters that change (10000)
  --adds N      pods without allowed peers, with traffic to them before they exist (10000)
  --only NAME   a part: \`model\` (clusters, mutants, connections of the model), \`switch\` (the same on Open vSwitch), \`lab\` (the rest), or \`tiers\`
                  (clusters, changes and mutants of policies of all tiers, in the model and on Open vSwitch)
  --short       as much as in \`npm test\`
  -h, --help    this text
`;

const text = { type: 'string' };
const options = { seed: text, sets: text, adds: text, only: text, short: { type: 'boolean' } };
const parts = {
  model: ['--project', 'unit', 'test/model/polic'],
  switch: ['--project', 'integration', 'test/integration/polic'],
  lab: ['--project', 'e2e', '--project', 'waiting', 'test/e2e/polic'],
  tiers: ['--project', 'unit', '--project', 'integration', '-t', 'all tiers', 'test/model/polic', 'test/integration/policy-flows'],
};
/** Time limit of the whole on a busy host with two cores. */
const deadlineS = '43200';

/** @returns {string} a whole number in its original form */
function number(name, text) {
  if (/^\d+$/.test(text)) return text;
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

const { seed, sets, adds, only, short, help: asked } = parsed();
if (only !== undefined && !Object.hasOwn(parts, only)) {
  process.stderr.write(`test:policy: --only: one of ${Object.keys(parts).join(', ')}\n`);
  process.exit(2);
}
if (asked) process.stdout.write(help);
else {
  const long = {
    SEINE_TEST_POLICY_SETS: '10000',
    SEINE_TEST_POLICY_MUTANTS: '1000',
    SEINE_TEST_POLICY_ADDS: '10000',
    SEINE_TEST_POLICY_CONNECTIONS: '10000',
    SEINE_TEST_POLICY_FLOOD_S: '60',
  };
  const env = {
    ...process.env,
    ...(short ? {} : long),
    ...(sets === undefined ? {} : { SEINE_TEST_POLICY_SETS: number('sets', sets) }),
    ...(adds === undefined ? {} : { SEINE_TEST_POLICY_ADDS: number('adds', adds) }),
    ...(seed === undefined ? {} : { SEINE_TEST_SEED: number('seed', seed) }),
    SEINE_TEST_DEADLINE_S: deadlineS,
  };
  process.exitCode = await runTests(only === undefined ? ['polic'] : parts[only], env);
}
