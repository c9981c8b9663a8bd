import { clusterLintCodes, lintCodes, namespaceLintCodes } from '../../src/policy/lint/findings.ts';

/** The table of `docs/policy-testing.md` of findings of `seinectl policy lint`. */
export function lintCodesTable(): string {
  const mark = (codes: readonly string[], code: string): string => (codes.includes(code) ? 'yes' : '');
  const rows = Object.entries(lintCodes)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([code, text]) => `| ${[code, text, mark(namespaceLintCodes, code), mark(clusterLintCodes, code)].join(' | ')} |`);
  return ['| Code | Finding | NetworkPolicy | ClusterNetworkPolicy |', '|---|---|---|---|', ...rows].join('\n');
}
