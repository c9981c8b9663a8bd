import { expect, it } from 'vitest';
import { healthWithFormerNames } from './former-names.ts';
import type { HealthReport } from './problem.ts';

const failing = { kind: 'check.failing', about: 'cni', message: 'periodic check cni fails', ageSeconds: 3, remedy: 'df /' } as const;

it('reports names of earlier releases beside the present ones', () => {
  const report: HealthReport = { verdict: 'problems', problems: [failing, { ...failing, kind: 'cni' }], healthChecks: [] };
  expect(healthWithFormerNames(report)).toEqual({
    ...report,
    problems: [
      { ...failing, formerKind: 'look.failing' },
      { ...failing, kind: 'cni' },
    ],
  });
});

it('reports the verdict of earlier releases only if it had another name', () => {
  const verdicts = (['no problems', 'problems', 'not all checked'] as const).map(
    (verdict) => healthWithFormerNames({ verdict, problems: [], healthChecks: [] }).formerVerdict,
  );
  expect(verdicts).toEqual([undefined, undefined, 'not all looked at']);
});
