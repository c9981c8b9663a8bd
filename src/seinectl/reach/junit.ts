import { type CaseReport, type FileReport, failureLines } from '../../policy/cases/case-report.ts';

/** Returns the reports as JUnit XML: a suite for each file, as CI systems read it. */
export function junit(reports: readonly FileReport[]): string {
  const suites = reports.flatMap(({ path, cases, coverage, leastCoverage }) => {
    const failures = cases.filter(({ result }) => result.is !== 'as expected').length;
    const isCovered = leastCoverage === undefined || coverage >= leastCoverage;
    const coverageCase = leastCoverage === undefined ? [] : [coverageElement(path, coverage, leastCoverage)];
    const counts = `tests="${cases.length + coverageCase.length}" failures="${failures + (isCovered ? 0 : 1)}"`;
    return [`  <testsuite name="${escaped(path)}" ${counts}>`, ...cases.map(caseElement), ...coverageCase, '  </testsuite>'];
  });
  return ['<?xml version="1.0" encoding="UTF-8"?>', '<testsuites>', ...suites, '</testsuites>'].join('\n');
}

function caseElement(report: CaseReport): string {
  const open = `    <testcase classname="${escaped(report.file)}" name="${escaped(`case ${report.number}: ${report.text}`)}" time="${(report.milliseconds / 1000).toFixed(3)}"`;
  if (report.result.is === 'as expected') return `${open}/>`;
  const [message = '', ...details] = failureLines(report);
  return `${open}><failure message="${escaped(message)}">${escaped(details.join('\n'))}</failure></testcase>`;
}

function coverageElement(path: string, coverage: number, least: number): string {
  const open = `    <testcase classname="${escaped(path)}" name="coverage of rules"`;
  return coverage >= least ? `${open}/>` : `${open}><failure message="${coverage} % of the rules used, ${least} % required"/></testcase>`;
}

/** Escapes text for XML 1.0, and replaces characters that it cannot have. */
function escaped(text: string): string {
  return text
    .replace(/[^\t\n\r\u0020-\ud7ff\ue000-\ufffd]/g, '\ufffd')
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;');
}
