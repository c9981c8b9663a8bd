import { SeineError } from '../../base/errors/seine-error.ts';
import { type CaseReport, type FileReport, failureLines } from '../../policy/cases/case-report.ts';
import { runTestCases } from '../../policy/cases/test-cases.ts';
import { partyName } from '../../policy/reach/party.ts';
import { decidersOf } from '../../policy/reach/ranges.ts';
import { portsText } from '../../policy/reach/table.ts';
import { safeLine } from '../escape.ts';
import type { ProcessVariables } from '../fleet/kubeconfig-files.ts';
import { print } from '../output.ts';
import type { Terminal } from '../terminal.ts';
import { count } from '../words.ts';
import { junit } from './junit.ts';
import { reachExitCodes } from './reach-exit-codes.ts';
import { remarkLack, reportDisagreements } from './reports.ts';
import { type ObjectSource, readObjects } from './sources.ts';
import { readTestFile, type TestFile } from './test-file.ts';
import { reportTraffic, trafficLine } from './traffic-report.ts';

export interface TestOptions extends ObjectSource {
  readonly output: 'table' | 'json' | 'junit';
  /** Prints the rules that no case uses. */
  readonly coverage?: boolean;
  /** List of connections whose verdicts are printed. */
  readonly traffic?: string;
  /** Reads the objects of the cluster, not those that the file names. */
  readonly cluster?: boolean;
}

/** `seinectl policy test`: evaluates the cases of test files. @returns the exit code */
export async function testPolicies(
  paths: readonly string[],
  options: TestOptions,
  terminal: Terminal,
  env: ProcessVariables,
): Promise<number> {
  if (paths.length === 0 && options.traffic === undefined) throw new SeineError('INVALID_INPUT', 'a test file or --traffic is required');
  const reports: FileReport[] = [];
  for (const path of paths) reports.push(await runFile(readTestFile(path), options, terminal, env));
  const traffic =
    options.traffic === undefined
      ? []
      : reportTraffic(options.traffic, await readObjects(options, env, (lack) => remarkLack(lack, terminal)));
  if (options.output === 'json')
    print(
      terminal,
      { files: reports.map(fileJson), ...(options.traffic === undefined ? {} : { traffic: traffic.map(trafficJson) }) },
      'json',
    );
  else if (options.output === 'junit') terminal.line(junit(reports));
  else
    for (const line of [...reports.flatMap((each) => reportLines(each, options.coverage === true)), ...traffic.map(trafficLine)])
      terminal.line(safeLine(line));
  const disagreements = [...reports.flatMap(({ cases }) => cases.map(({ result }) => result)), ...traffic].flatMap(
    (each) => each.disagreements,
  );
  reportDisagreements(disagreements, terminal);
  if (disagreements.length > 0) return reachExitCodes.notConfirmed;
  return reports.every(isAsExpected) && traffic.every(({ missing }) => missing === undefined)
    ? reachExitCodes.ok
    : reachExitCodes.different;
}

async function runFile(file: TestFile, options: TestOptions, terminal: Terminal, env: ProcessVariables): Promise<FileReport> {
  const objects = await readObjects(sourceFor(file, options), env, (lack) => remarkLack(lack, terminal));
  const { results, ...tested } = runTestCases(file, objects, () => performance.now());
  const least = file.leastCoverage === undefined ? {} : { leastCoverage: file.leastCoverage };
  return { path: file.path, cases: results.map((each): CaseReport => ({ ...each, file: file.path })), ...tested, ...least };
}

/** The command line goes before the file: the same cases can be run with the objects of a cluster. */
function sourceFor({ objects }: TestFile, options: TestOptions): ObjectSource {
  const isGiven =
    options.cluster === true ||
    options.known !== undefined ||
    [options.filename, options.bundle, options.kubeconfig, options.context].some((each) => each !== undefined);
  return !isGiven && objects ? { filename: objects } : options;
}

function isAsExpected({ cases, coverage, leastCoverage = 0 }: FileReport): boolean {
  return coverage >= leastCoverage && cases.every(({ result }) => result.is === 'as expected');
}

function reportLines(report: FileReport, isCoverageShown: boolean): readonly string[] {
  const { path, cases, rules, coverage, leastCoverage, unusedRules } = report;
  const failed = cases.filter(({ result }) => result.is !== 'as expected');
  const isCovered = coverage >= (leastCoverage ?? 0);
  const share = `${coverage} % of ${count(rules, 'rule')} used`;
  return [
    ...failed.flatMap((each) => [`FAIL  ${path} case ${each.number}: ${each.text}`, ...failureLines(each).map((line) => `      ${line}`)]),
    ...(isCovered ? [] : [`FAIL  ${path}: ${share}, ${leastCoverage} % required`]),
    ...(isCoverageShown || !isCovered ? unusedRules.map((rule) => `      no case uses ${rule}`) : []),
    `${failed.length === 0 && isCovered ? 'ok' : 'FAIL'}    ${path}: ${cases.length - failed.length} of ${count(cases.length, 'case')} as expected, ${share}`,
  ];
}

function fileJson({ cases, ...report }: FileReport) {
  return {
    ...report,
    cases: cases.map(({ number, text, test, result: { disagreements, examples, ...result } }) => ({
      number,
      case: text,
      expect: test.expect,
      ...(test.by === undefined ? {} : { by: test.by }),
      ...result,
      examples: examples.map(({ from, to, family, range }) => ({
        from: partyName(from),
        to: partyName(to),
        family,
        ports: portsText([range]),
        verdict: range.verdict,
        by: decidersOf(range),
      })),
      notConfirmed: disagreements.length,
    })),
  };
}

function trafficJson({ text, disagreements, ...report }: ReturnType<typeof reportTraffic>[number]) {
  return { connection: text, ...report, notConfirmed: disagreements.length };
}
