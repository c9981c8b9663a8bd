import { parseArgs } from 'node:util';
import { runTests } from './test-run/run-tests.mjs';

const help = `npm run test:flows [-- options]: the flow log with 10,000 connections in a lab: each has a record or is counted; \`npm test\` has 300

  --seed N          repeat a run that printed this seed
  --connections N   number of connections (10000)
  -h, --help        this text
`;

const text = { type: 'string' };

/** @returns {string} a whole number in its original form */
function number(name, value) {
  if (/^\d{1,9}$/.test(value)) return value;
  process.stderr.write(`test:flows: --${name}: a whole number is wanted, not ${JSON.stringify(value)}\n`);
  process.exit(2);
}

function parsed() {
  try {
    return parseArgs({ options: { seed: text, connections: text, help: { type: 'boolean', short: 'h' } } }).values;
  } catch (error) {
    process.stderr.write(`test:flows: ${error.message}\n\n${help}`);
    process.exit(2);
  }
}

const { seed = String(1 + Math.floor(Math.random() * 1e6)), connections = '10000', help: asked } = parsed();
if (asked) process.stdout.write(help);
else {
  const env = {
    ...process.env,
    SEINE_TEST_SEED: number('seed', seed),
    SEINE_TEST_FLOWS: number('connections', connections),
    SEINE_TEST_DEADLINE_S: '7200',
  };
  process.exitCode = await runTests(['--project', 'e2e', 'test/e2e/flow-log'], env);
}
