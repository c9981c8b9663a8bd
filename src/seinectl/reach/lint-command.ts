import { type LintFinding, lintCodes } from '../../policy/lint/findings.ts';
import { lint } from '../../policy/lint/lint.ts';
import { safeLine } from '../escape.ts';
import type { ProcessVariables } from '../fleet/kubeconfig-files.ts';
import { print } from '../output.ts';
import type { Terminal } from '../terminal.ts';
import { count } from '../words.ts';
import { PolicyPlaces } from './policy-places.ts';
import { reachExitCodes } from './reach-exit-codes.ts';
import { remarkLack } from './reports.ts';
import { sarif } from './sarif.ts';
import { type ObjectSource, readObjects } from './sources.ts';

export interface LintOptions extends ObjectSource {
  /** Least level of a finding that makes the command fail. */
  readonly failOn: 'error' | 'warning';
  readonly output: 'table' | 'json' | 'sarif';
}

/** `seinectl policy lint`: likely mistakes in policies. @returns the exit code */
export async function lintPolicies(options: LintOptions, terminal: Terminal, env: ProcessVariables): Promise<number> {
  const objects = await readObjects(options, env, (lack) => remarkLack(lack, terminal));
  const findings = lint(objects);
  if (options.output === 'json') print(terminal, { findings }, 'json');
  else if (options.output === 'sarif') print(terminal, sarif(findings, new PolicyPlaces(options.filename ?? [])), 'json');
  else for (const finding of findings) for (const line of findingLines(finding)) terminal.line(safeLine(line));
  const errors = findings.filter(({ level }) => level === 'error').length;
  const warnings = findings.length - errors;
  terminal.remark(
    `${count(objects.networkPolicies.length, 'policy', 'policies')}: ${count(errors, 'error')}, ${count(warnings, 'warning')}`,
  );
  return errors > 0 || (options.failOn === 'warning' && warnings > 0) ? reachExitCodes.different : reachExitCodes.ok;
}

function findingLines({ code, level, policy, field, message }: LintFinding): readonly string[] {
  return [`${level} ${code}  ${policy} ${field}: ${lintCodes[code]}`, `    ${message}`];
}
