import { parseArgs } from 'node:util';
import { sayClosingLine } from './test-run/closing-line.mjs';
import { readRecord } from './test-run/record.mjs';
import { recordFileOf, runTests } from './test-run/run-tests.mjs';

const help = `npm run test:random [-- options]: the random tests, longer than \`npm test\` has them; some forty minutes

  --seed N      repeat a run that printed this seed; a new one without it
  --only LIST   parts, with commas between them; --list says which there are
  --mode LIST   traffic modes of the random clusters of \`cells\`, one after another: encap, noEncap, hybrid, wireGuard; encap without it
  --short       as much as in \`npm test\`
  --list        the parts, and what each does
  -h, --help    this text

CI runs it after \`npm test\`. What takes hours has commands of its own: test:policy, test:crash, test:chaos, test:soak.
`;

/** Tests of a part, and their amount: `npm test` runs the amount without `env`. */
const parts = {
  policy: {
    what: '25 random clusters each: policies change together, labels are exchanged, agents end in the middle of it',
    args: ['--project', 'unit', 'test/model/policy-restarts', 'test/model/policy-changes'],
    env: { SEINE_TEST_POLICY_SETS: '100' },
  },
  models: {
    what: 'models of pipeline, policies, Services and addresses: five times as many random cases as in `npm test`',
    args: [
      ...['--project', 'unit', '--project', 'integration'],
      ...['pipeline', 'policy-flows', 'services', 'admitted-traffic', 'earlier-release'].map((name) => `test/model/${name}.test.ts`),
      ...['src/pods/ipam/crash.test.ts', 'test/integration/pipeline-packets.test.ts', 'test/integration/pipeline-trace.test.ts'],
    ],
    env: { SEINE_TEST_MODEL_SHARE: '1' },
  },
  walk: {
    what: '100,000 random packets each: the interpreter of flows and the model of the switch agree, and both with ofproto/trace for 5,000',
    args: ['--project', 'unit', '--project', 'integration', 'test/model/flow-walk', 'test/integration/pipeline-trace'],
    env: { SEINE_TEST_WALK_PACKETS: '100000', SEINE_TEST_TRACES: '5000' },
  },
  probe: {
    what: '10,000 probes of a trace under load: none is delivered, remembered by connection tracking or learned',
    args: ['--project', 'integration', 'test/integration/probe-packets'],
    env: { SEINE_TEST_PROBES: '10000' },
  },
  'what-if': {
    what: '1,500 random proposals: predicted changes equal those that the reference finds; packets in 600 simulated clusters',
    args: ['--project', 'unit', 'test/model/what-if', 'test/model/simulated-cluster'],
    env: { SEINE_TEST_PROPOSALS: '1500', SEINE_TEST_SIMULATIONS: '600' },
  },
  applied: {
    what: '200 random proposals that a lab applies: packets before and after show exactly the changes that `seinectl whatif` predicted',
    args: ['--project', 'e2e', 'test/e2e/what-if'],
    env: { SEINE_TEST_APPLIED_PROPOSALS: '200' },
  },
  cells: {
    what: '100,000 random connections of random clusters: what objects mean, what agents desire and what bridges do agree; injected faults are found',
    args: ['--project', 'unit', 'test/model/cells', 'test/model/exposed-cells'],
    env: { SEINE_TEST_CELLS: '100000' },
    modes: { variable: 'SEINE_TEST_TRAFFIC_MODE', all: ['encap', 'noEncap', 'hybrid', 'wireGuard'] },
  },
  mutants: {
    what: '500 faults in the flows of a bridge that change the fate of a packet: two judges notice each of them, and name its table; 300 of policies',
    args: ['--project', 'unit', 'test/model/flow-mutants', 'test/model/policy-mutants'],
    env: { SEINE_TEST_FLOW_MUTANTS: '500', SEINE_TEST_POLICY_MUTANTS: '300' },
  },
  history: {
    what: '1,000 random incidents: inputs that were recorded each second are compiled again, with equal digests; a process that records, killed at each write',
    args: ['--project', 'unit', 'test/model/incidents', 'src/operations/history/killed-recorder'],
    env: { SEINE_TEST_INCIDENTS: '1000', SEINE_TEST_RECORDER_KILLS: '120' },
  },
  'first-packet': {
    what: '50 pods without allowed peers, with traffic to them before they exist, while agent and API server stop and start',
    args: ['--project', 'e2e', 'test/e2e/policy-first-packet'],
    env: { SEINE_TEST_POLICY_ADDS: '50' },
  },
  crash: {
    what: 'the agent killed 40 times in the midst of ADD and DEL, for each kind of interface',
    args: ['--project', 'waiting', 'test/e2e/converge-crash'],
    env: { SEINE_TEST_KILLS: '40' },
  },
  modes: {
    what: 'traffic modes of two nodes changed under 1,000 packets per second in each direction, new and standing connections: of a million datagrams none is lost',
    args: ['--project', 'e2e', 'test/e2e/peer-modes'],
    env: { SEINE_TEST_MODE_PACKETS: '1000000' },
  },
  encryption: {
    what: 'agents killed 40 times and the WireGuard device deleted 10 times under 1,000 packets per second: none leaves a node unencrypted',
    args: ['--project', 'e2e', 'test/e2e/wireguard'],
    env: { SEINE_TEST_ENCRYPTION_KILLS: '40' },
  },
  chaos: {
    what: 'a running cluster with 20 steps of faults and changes of seed 17, and 20 of the seed of this run',
    args: ['--project', 'e2e', 'test/e2e/chaos'],
    env: { SEINE_TEST_TORTURE_STEPS: '20' },
  },
  hostile: {
    what: '500 valid objects of seed 38, and 500 of the seed of this run, that a tenant, a pod author or a node may write and that must harm no other',
    args: ['--project', 'e2e', 'test/e2e/hostile'],
    env: { SEINE_TEST_HOSTILE_OBJECTS: '500' },
  },
};

const text = { type: 'string' };
const flag = { type: 'boolean' };
const options = { seed: text, only: text, mode: text, short: flag, list: flag, help: { ...flag, short: 'h' } };

/** Ends the process: the arguments are invalid. */
function refuse(message) {
  process.stderr.write(`test:random: ${message}\n\n${help}`);
  process.exit(2);
}

function parsed() {
  try {
    return parseArgs({ options }).values;
  } catch (error) {
    return refuse(error.message);
  }
}

function chosen(only) {
  const names = only?.split(',') ?? Object.keys(parts);
  const unknown = names.find((name) => !Object.hasOwn(parts, name));
  if (unknown !== undefined) refuse(`--only: there is no ${unknown}; some of ${Object.keys(parts).join(', ')}`);
  return names;
}

function seedOf(given) {
  if (given === undefined) return String(Math.floor(Math.random() * 1_000_000));
  if (!/^\d{1,9}$/.test(given)) refuse(`--seed: a whole number is wanted, not ${JSON.stringify(given)}`);
  return given;
}

/** Returns the parts with their environment, once for each traffic mode that is asked for. */
function runsOf(names, given) {
  const asked = given?.split(',');
  if (asked && !names.some((name) => parts[name].modes)) refuse(`--mode: none of ${names.join(', ')} has traffic modes; cells has`);
  return names.flatMap((part) => {
    const { modes } = parts[part];
    if (!asked || !modes) return [{ name: part, part, env: {} }];
    const unknown = asked.find((mode) => !modes.all.includes(mode));
    if (unknown !== undefined) refuse(`--mode: there is no ${unknown}; some of ${modes.all.join(', ')}`);
    return asked.map((mode) => ({ name: `${part}-${mode}`, part, env: { [modes.variable]: mode } }));
  });
}

/** Runs one part after another; each counts its tests. */
async function run(runs, { seed, short }) {
  const results = [];
  for (const { name, part, env: ofRun } of runs) {
    const { what, args, env } = parts[part];
    console.log(`\n▶ ${name}: ${what}`);
    const startedMs = performance.now();
    const code = await runTests(args, { ...process.env, ...(short ? {} : env), ...ofRun, SEINE_TEST_SEED: seed }, { name });
    const { passed = 0, failed = 0, failures = [] } = readRecord(recordFileOf(name)) ?? {};
    const seconds = Math.round((performance.now() - startedMs) / 1000);
    results.push({ name, code, passed, failed: code !== 0 && failed === 0 ? 1 : failed, failures, seconds });
  }
  return results;
}

function tell(results, seed) {
  const failures = results.flatMap(({ failures: lines }) => lines);
  if (failures.length > 0) console.log(`\nWhat failed:\n${failures.map((line) => `  ${line}`).join('\n')}`);
  console.log('');
  for (const { name, code, seconds } of results) console.log(`${code === 0 ? '✓' : '✗'} ${name} (${seconds} s)`);
  console.log(`Seed ${seed}: \`npm run test:random -- --seed ${seed}\` does the same again.`);
  const sum = (key) => results.reduce((all, result) => all + result[key], 0);
  sayClosingLine({ passed: sum('passed'), failed: sum('failed') });
}

const asked = parsed();
if (asked.help) process.stdout.write(help);
else if (asked.list) for (const [name, { what }] of Object.entries(parts)) console.log(`${name.padEnd(14)}${what}`);
else {
  const [runs, seed] = [runsOf(chosen(asked.only), asked.mode), seedOf(asked.seed)];
  console.log(`Seed ${seed}`);
  const results = await run(runs, { seed, short: asked.short });
  tell(results, seed);
  process.exitCode = results.every(({ code }) => code === 0) ? 0 : 1;
}
