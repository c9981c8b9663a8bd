import type { WantedBridge, WantedPort } from '../../desired/switch-row.ts';

/** `bridge` for the bridge itself, `port/NAME` for each of its ports. */
export type SwitchKey = 'bridge' | `port/${string}`;

export type SwitchEntry = (
  | { readonly kind: 'bridge'; readonly bridge: WantedBridge }
  | { readonly kind: 'port'; readonly port: WantedPort }
) & {
  /** Settings made by another program that Seine never sets, in the words of `ovs-vsctl`. */
  readonly foreign?: string;
};

export function portKey(name: string): SwitchKey {
  return `port/${name}`;
}

export function sameSwitchEntry(a: SwitchEntry, b: SwitchEntry): boolean {
  return a === b || canonical(a) === canonical(b);
}

/** Canonical text: members and maps in order of their names. */
function canonical(entry: SwitchEntry): string {
  if (entry.kind === 'bridge') {
    const { name, datapathType, tableNames } = entry.bridge;
    return JSON.stringify([name, datapathType, [...tableNames].toSorted(([a], [b]) => a - b), entry.foreign ?? '']);
  }
  const { name, type, ofPort, options, externalIds, mac, mtu } = entry.port;
  return JSON.stringify([name, type, ofPort, sorted(options), sorted(externalIds), mac ?? null, mtu ?? null, entry.foreign ?? '']);
}

function sorted(record: Readonly<Record<string, string>>): readonly (readonly [string, string])[] {
  return Object.entries(record).toSorted(([a], [b]) => (a < b ? -1 : 1));
}
