import { existsSync, readFileSync } from 'node:fs';
import { expectedFailures, leftOut } from './upstream-tests.mjs';

const room = '[sig-network] ';
/** Of what a test says of its failure, a line may hold a whole object. */
const saidMost = 160;

/**
 * What a run of upstream's tests for the network has come to, test by test, from ginkgo's JSON report: small enough to be kept.
 *
 * @param {string} file of the report
 * @param {object} about what is to be kept beside it: when, with what
 */
export function summaryOf(file, about) {
  const suites = existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : [];
  const seconds = suites.reduce((sum, { RunTime: nanoseconds }) => sum + nanoseconds / 1e9, 0);
  const specs = suites.flatMap(({ SpecReports: reports }) => reports ?? []).filter(isOfNetwork);
  const tests = specs.map(testOf).toSorted((a, b) => (a.group + a.name < b.group + b.name ? -1 : 1));
  return { ...about, minutes: Math.round(seconds / 60), tests };
}

/** Whether the run came to its own end: what was ended from outside says nothing of the tests that it did not come to. @param {string} file of the report */
export function isWhole(file) {
  const suites = existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : [];
  const cut = suites
    .flatMap(({ SpecialSuiteFailureReasons: reasons }) => reasons ?? [])
    .filter((reason) => /interrupt|timeout|timed out/i.test(reason));
  return suites.length > 0 && cut.length === 0;
}

/**
 * A run on record, with what became of some of its tests in a later one: a failure that did not come again stays one, and says so.
 *
 * @param {ReturnType<typeof summaryOf>} recorded
 * @param {ReturnType<typeof summaryOf>} later
 */
export function ranAgain(recorded, later) {
  const passed = new Set(later.tests.filter(({ state }) => state === 'passed').map(({ group, name }) => `${group} ${name}`));
  const tests = recorded.tests.map((test) =>
    test.state === 'failed' && passed.has(`${test.group} ${test.name}`) ? { ...test, again: later.date } : test,
  );
  return { ...recorded, tests };
}

function isOfNetwork({ LeafNodeType: type, ContainerHierarchyTexts: containers }) {
  return type === 'It' && containers?.[0]?.startsWith(room);
}

function testOf({ ContainerHierarchyTexts: [first, ...containers], LeafNodeText: text, State: state, Failure: failure }) {
  const group = first.slice(room.length);
  const name = [...containers, text].join(' ');
  const [line = ''] = (failure?.Message ?? '').split('\n');
  // Without where programs are on this machine.
  const said = line.replace(/\/\S+\/(?=\w+ )/g, '').slice(0, saidMost);
  if (state === 'passed') return { group, name, state };
  // Ginkgo says of tests that were not asked for that they are skipped as well, but not why.
  if (state === 'skipped' || state === 'pending')
    return { group, name, ...(said === '' ? notAskedFor(`${first} ${name}`) : { state, said }) };
  return { group, name, state: 'failed', said };
}

function notAskedFor(name) {
  const { why } = leftOut.find(({ pattern }) => new RegExp(pattern).test(name)) ?? { why: 'not asked for' };
  return { state: 'left out', said: why };
}

/** Why a test fails here, as is known today: of what is on record some became known later. @param {{ group: string, name: string }} test */
export function knownReason({ group, name }) {
  const whole = `${room}${group} ${name}`;
  return [...expectedFailures, ...leftOut].find(({ pattern }) => new RegExp(pattern).test(whole))?.why;
}
