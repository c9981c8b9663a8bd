import { seineVersion } from '../../api/version.ts';
import { type LintFinding, lintCodes } from '../../policy/lint/findings.ts';

/** Returns findings as a SARIF 2.1.0 log, which code review systems show. Policies are logical locations: they need not come from a file. */
export function sarif(findings: readonly LintFinding[]) {
  return {
    $schema: 'https://json.schemastore.org/sarif-2.1.0.json',
    version: '2.1.0',
    runs: [
      {
        tool: {
          driver: {
            name: 'seinectl policy lint',
            version: seineVersion,
            rules: Object.entries(lintCodes).map(([id, text]) => ({ id, shortDescription: { text } })),
          },
        },
        results: findings.map(({ code, level, policy, field, message }) => ({
          ruleId: code,
          level,
          message: { text: message },
          locations: [
            {
              logicalLocations: [
                {
                  fullyQualifiedName: `${policy.includes('/') ? 'NetworkPolicy' : 'ClusterNetworkPolicy'}/${policy} ${field}`,
                  kind: 'object',
                },
              ],
            },
          ],
        })),
      },
    ],
  };
}
