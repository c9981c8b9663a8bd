import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';

/** An alert rule, as Prometheus reads it. */
export interface AlertRule {
  readonly alert: string;
  readonly expr: string;
  readonly for?: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
}

export interface DashboardPanel {
  readonly id: number;
  readonly type: string;
  readonly title: string;
  readonly description?: string;
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
  readonly targets?: readonly { readonly refId: string; readonly expr: string; readonly legendFormat: string }[];
}

export interface Dashboard {
  readonly panels: readonly DashboardPanel[];
  readonly templating: { readonly list: readonly { readonly name: string; readonly query: string }[] };
}

const folder = join(import.meta.dirname, '..', '..', 'build', 'observability');

export function alertRules(): readonly AlertRule[] {
  const { groups } = parse(readFileSync(join(folder, 'alerts.yaml'), 'utf8')) as { groups: { name: string; rules: AlertRule[] }[] };
  return groups.flatMap(({ rules }) => rules);
}

export function dashboard(): Dashboard {
  return JSON.parse(readFileSync(join(folder, 'dashboard.json'), 'utf8')) as Dashboard;
}

/** Every expression of both, with its place. */
export function expressions(): readonly { readonly where: string; readonly expr: string }[] {
  const ofPanels = dashboard().panels.flatMap(({ title, targets = [] }) => targets.map(({ expr }) => ({ where: `panel ${title}`, expr })));
  // Grafana replaces these before Prometheus sees them.
  const filled = ofPanels.map(({ where, expr }) => ({
    where,
    expr: expr.replaceAll('$__rate_interval', '5m').replaceAll('$instance', '.*'),
  }));
  return [...alertRules().map(({ alert, expr }) => ({ where: `alert ${alert}`, expr })), ...filled];
}
