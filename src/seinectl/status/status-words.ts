import type { SourceStatus } from '../../api/status.ts';

/** Parts of the node and connections, as the pages name them. */
export const partWords: Readonly<Record<string, string>> = {
  switch: 'switch (bridge, ports)',
  bridge: 'bridge (flows, groups)',
  host: 'host (routes, neighbours)',
  firewall: 'firewall (nftables)',
  settings: 'settings (sysctl)',
};
export const connectionWords: Readonly<Record<string, string>> = {
  ovsdb: 'switch database',
  openflow: 'OpenFlow, flows',
  packetIn: 'OpenFlow, packets',
};

export type SourceReliance = NonNullable<SourceStatus['state']>;

/** Also of an agent that does not say it. */
export function sourceReliance({ state, held, synced, failures }: SourceStatus): SourceReliance {
  if (state !== undefined) return state;
  if (held !== undefined) return 'held';
  if (synced) return 'in step';
  return failures > 0 ? 'failing' : 'not confirmed';
}
