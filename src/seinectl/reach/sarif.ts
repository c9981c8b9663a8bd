import { seineVersion } from '../../api/version.ts';
import { type LintFinding, lintCodes } from '../../policy/lint/findings.ts';
import type { PolicyPlace, PolicyPlaces } from './policy-places.ts';

/**
 * Returns findings as a SARIF 2.1.0 log, which code review systems show. A policy that comes from a file has a physical location too, which
 * GitHub's code scanning requires.
 */
export function sarif(findings: readonly LintFinding[], places: Pick<PolicyPlaces, 'placeOf'>) {
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
        results: findings.map((finding) => ({
          ruleId: finding.code,
          level: finding.level,
          message: { text: finding.message },
          locations: [{ ...physicalLocation(places.placeOf(finding)), logicalLocations: [logicalLocation(finding)] }],
        })),
      },
    ],
  };
}

function logicalLocation({ policy, field }: LintFinding) {
  const kind = policy.includes('/') ? 'NetworkPolicy' : 'ClusterNetworkPolicy';
  return { fullyQualifiedName: `${kind}/${policy} ${field}`, kind: 'object' };
}

function physicalLocation(place: PolicyPlace | undefined) {
  if (!place) return {};
  const { uri, line, column } = place;
  return { physicalLocation: { artifactLocation: { uri }, region: { startLine: line, startColumn: column } } };
}
