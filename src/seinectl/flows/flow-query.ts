import type { OutputForm } from '../output.ts';

/** Summary to print instead of records. */
export type SummaryForm =
  | { readonly what: 'top'; readonly by: 'pair' | 'namespace' | 'service' | 'port'; readonly seconds: number }
  | { readonly what: 'matrix'; readonly seconds: number };

export interface FlowQuery {
  /** Filters that the agent applies, by name. */
  readonly filters: readonly (readonly [name: string, value: string])[];
  /** Seconds. */
  readonly since?: number;
  readonly last?: number;
  readonly follow?: true;
  /** Connections that are open now, instead of records. */
  readonly now?: true;
  readonly node?: string;
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly agentsNamespace: string;
  readonly summary?: SummaryForm;
  readonly output: OutputForm;
}

/** Returns the path of a request to an agent. */
export function pathOf({ filters, since, last, follow, now, summary }: FlowQuery): string {
  if (summary) return `/v1/flow-log/summary?seconds=${summary.seconds}`;
  const query = new URLSearchParams(filters.map(([name, value]): [string, string] => [name, value]));
  if (since !== undefined) query.set('since', String(since));
  if (last !== undefined) query.set('last', String(last));
  if (follow) query.set('follow', 'true');
  if (now) query.set('now', 'true');
  return query.size === 0 ? '/v1/flow-log' : `/v1/flow-log?${query}`;
}

/** Returns the command line that prints an agent's answer unchanged. */
export function rawCommand({ filters, since, last, follow, now, summary }: FlowQuery): readonly string[] {
  const options = [
    ...filters.flatMap(([name, value]) => [`--${name}`, value]),
    ...(since === undefined ? [] : ['--since', `${since}s`]),
    ...(last === undefined ? [] : ['--last', String(last)]),
    ...(follow ? ['--follow'] : []),
    ...(now ? ['--now'] : []),
  ];
  const sub = summary ? [summary.what, '--for', `${summary.seconds}s`] : [];
  return ['seinectl', 'flows', '--raw', ...options, ...sub];
}
