import { checkNames } from '../../src/api/check.ts';
import { problemKinds } from '../../src/api/problem.ts';
import { hostSettings } from '../../src/nodes/local/host-settings.ts';
import { METRIC_PREFIX, type MetricRow, metricRows, processRows } from '../../src/operations/admin/metrics/metric-rows.ts';

/** Tables of `docs/operations.md` and `docs/reference` from the tables of the agent. */
export function metricsTable(): string {
  const ours = Object.entries<MetricRow>(metricRows).map(([name, row]) => [METRIC_PREFIX + name, row] as const);
  const rows = [...ours, ...Object.entries<MetricRow>(processRows)].map(
    ([name, { type, labels = [], help }]) => `| \`${name}\` | ${type} | ${labels.map((label) => `\`${label}\``).join(', ')} | ${help} |`,
  );
  return ['| Metric | Type | Labels | Meaning |', '|---|---|---|---|', ...rows].join('\n');
}

export function kernelSettingsTable(): string {
  const rows = hostSettings(['ipv4', 'ipv6'], 'antrea-gw0').map(({ name, value, why }) => `| \`${name.join('.')}\` | ${value} | ${why} |`);
  return ['| Setting | Value | Why |', '|---|---|---|', ...rows].join('\n');
}

export function checksTable(): string {
  const rows = Object.entries(checkNames).map(([name, how]) => `| \`${name}\` | ${how} |`);
  return ['| Finding | Description |', '|---|---|', ...rows].join('\n');
}

export function problemsTable(): string {
  // Links in these texts start from `docs`.
  const rows = Object.entries(problemKinds).map(
    ([kind, meaning]) => `| \`${kind}\` | ${meaning.replaceAll(/\]\((?=[\w-]+\.md)/g, '](../')} |`,
  );
  return ['| Kind | Meaning |', '|---|---|', ...rows].join('\n');
}
