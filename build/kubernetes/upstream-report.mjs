import { existsSync, readFileSync } from 'node:fs';
import { expectedFailures, leftOut } from './upstream-tests.mjs';

const room = '[sig-network] ';
/** Maximum length of a test's failure text, because a line may contain a whole object. */
const saidMost = 160;

/**
 * Results of a run of upstream's tests for the network, test by test, from ginkgo's JSON report: small enough to be kept.
 *
 * @param {string} file of the report
 * @param {object} about facts to be kept with it: time, versions
 */
export function summaryOf(file, about) {
  const suites = existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : [];
  const seconds = suites.reduce((sum, { RunTime: nanoseconds }) => sum + nanoseconds / 1e9, 0);
  const specs = suites.flatMap(({ SpecReports: reports }) => reports ?? []).filter(isOfNetwork);
  const tests = specs.map(testOf).toSorted((a, b) => (a.group + a.name < b.group + b.name ? -1 : 1));
  return { ...about, minutes: Math.round(seconds / 60), tests };
}

/**
 * Reports whether the run ended by itself: one that was ended from outside has no results for the remaining tests. @param {string} file of
 * the report
 */
export function isWhole(file) {
  const suites = existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : [];
  const cut = suites
    .flatMap(({ SpecialSuiteFailureReasons: reasons }) => reasons ?? [])
    .filter((reason) => /interrupt|timeout|timed out/i.test(reason));
  return suites.length > 0 && cut.length === 0;
}

/**
 * A recorded run, with the results of some of its tests in a later one: a failure that did not recur stays a failure, with a mark.
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
  // Without paths of programs on this host.
  const said = line.replace(/\/\S+\/(?=\w+ )/g, '').slice(0, saidMost);
  if (state === 'passed') return { group, name, state };
  // Ginkgo reports tests that were not requested as skipped as well, but without a reason.
  if (state === 'skipped' || state === 'pending')
    return { group, name, ...(said === '' ? notAskedFor(`${first} ${name}`) : { state, said }) };
  return { group, name, state: 'failed', said };
}

function notAskedFor(name) {
  const { why } = leftOut.find(({ pattern }) => new RegExp(pattern).test(name)) ?? { why: 'not asked for' };
  return { state: 'left out', said: why };
}

/** The known reason of a failing test: some reasons became known after the record. @param {{ group: string, name: string }} test */
export function knownReason({ group, name }) {
  const whole = `${room}${group} ${name}`;
  return [...expectedFailures, ...leftOut].find(({ pattern }) => new RegExp(pattern).test(whole))?.why;
}
