import type { SourceStatus } from '../../api/status.ts';

/** Names of targets and connections on the pages. */
export const partWords: Readonly<Record<string, string>> = {
  switch: 'OVSDB (bridge, ports)',
  bridge: 'bridge (flows, groups)',
  host: 'host (routes, neighbours)',
  firewall: 'firewall (nftables)',
  settings: 'settings (sysctl)',
};
export const connectionWords: Readonly<Record<string, string>> = {
  ovsdb: 'OVSDB',
  openflow: 'OpenFlow, flows',
  packetIn: 'OpenFlow, packets',
};

export type SourceReliance = NonNullable<SourceStatus['state']>;

/** Words of the pages for states of sources, whose names in answers are stable. */
export const sourceWords: Readonly<Record<SourceReliance, string>> = {
  'in step': 'synced',
  'not confirmed': 'not confirmed',
  held: 'removals delayed',
  refused: 'access denied',
  gone: 'no such resource',
  behind: 'outdated',
  failing: 'failing',
};

/** Also for an agent that does not report it. */
export function sourceReliance({ state, held, synced, failures }: SourceStatus): SourceReliance {
  if (state !== undefined) return state;
  if (held !== undefined) return 'held';
  if (synced) return 'in step';
  return failures > 0 ? 'failing' : 'not confirmed';
}
