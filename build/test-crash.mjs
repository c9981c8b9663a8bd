import { parseArgs } from 'node:util';
import { runTests } from './test-run/run-tests.mjs';

const help = `npm run test:crash [-- options]: kills the agent in the midst of ADD and DEL; \`npm test\` does a part

  --kills N             how often, for each kind of interface (200)
  --seed N              repeat a run that printed this seed
  --pod-interface KIND  veth or standing; both if absent, one after the other
  --short               as much as in \`npm test\`
  -h, --help            this text
`;

const text = { type: 'string' };
const options = { kills: text, seed: text, 'pod-interface': text, short: { type: 'boolean' }, help: { type: 'boolean', short: 'h' } };
const kinds = ['veth', 'standing'];

/** Ends the process: the arguments are invalid. */
function refuse(message) {
  process.stderr.write(`test:crash: ${message}\n\n${help}`);
  process.exit(2);
}

function parsed() {
  try {
    return parseArgs({ options }).values;
  } catch (error) {
    return refuse(error.message);
  }
}

const { kills, seed, 'pod-interface': kind, short, help: asked } = parsed();
for (const [name, given] of Object.entries({ kills, seed }))
  if (given !== undefined && !/^\d{1,9}$/.test(given)) refuse(`--${name}: a whole number is wanted, not ${JSON.stringify(given)}`);
if (kind !== undefined && !kinds.includes(kind)) refuse(`--pod-interface: one of ${kinds.join(', ')}, not ${JSON.stringify(kind)}`);
if (asked) process.stdout.write(help);
else {
  const env = { SEINE_TEST_KILLS: '200', ...process.env };
  if (short) delete env.SEINE_TEST_KILLS;
  if (kills !== undefined) env.SEINE_TEST_KILLS = kills;
  if (seed !== undefined) env.SEINE_TEST_SEED = seed;
  const only = kind === undefined ? [] : ['--testNamePattern', `podInterface: ${kind}|quarantine`];
  process.exitCode = await runTests(['--project', 'waiting', 'test/e2e/converge-crash.test.ts', ...only], env);
}
