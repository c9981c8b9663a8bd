/** Settings of echoes to other nodes. */
export interface MeshSettings {
  /** Interval of echoes to a fixed peer (ms); 0 disables all. */
  readonly intervalMs: number;
  /** Number of fixed peers; 0 disables all. */
  readonly peers: number;
}

/** Limits of the interval (ms), and of the number of peers. */
const INTERVAL_MS = { least: 1_000, most: 600_000 } as const;
export const MESH_PEERS_MAX = 64;

/** Returns an interval such as `10s`, `1500ms`, `1m` or `0` (ms), or why the text is none. */
export function parseMeshInterval(text: string): number | string {
  if (text === '0') return 0;
  const [, digits, unit] = /^(\d{1,6})(ms|s|m)$/.exec(text) ?? [];
  if (digits === undefined) return `${JSON.stringify(text)} is neither 0 nor a duration, such as 10s`;
  const ms = Number(digits) * (unit === 'm' ? 60_000 : unit === 's' ? 1_000 : 1);
  return ms === 0 || (ms >= INTERVAL_MS.least && ms <= INTERVAL_MS.most) ? ms : `${JSON.stringify(text)} is neither 0 nor from 1s to 10m`;
}

/** Values of ConfigMap `seine-live`, as they are written; absent if they are not set. */
interface LiveMesh {
  readonly meshInterval?: string;
  readonly meshPeers?: string;
}

/** Returns the settings in force, and the reasons why set values do not count, one sentence each. Pure. */
export function meshSettings(
  configured: MeshSettings,
  live: LiveMesh = {},
): { readonly value: MeshSettings; readonly faults: readonly string[] } {
  const faults: string[] = [];
  const inForce = (key: string, text: string | undefined, parse: (text: string) => number | string, otherwise: number): number => {
    const value = text === undefined ? otherwise : parse(text);
    if (typeof value === 'number') return value;
    faults.push(`${key} in ConfigMap seine-system/seine-live: ${value}; the configured value is in force`);
    return otherwise;
  };
  const value = {
    intervalMs: inForce('mesh.interval', live.meshInterval, parseMeshInterval, configured.intervalMs),
    peers: inForce('mesh.peers', live.meshPeers, parseMeshPeers, configured.peers),
  };
  return { value, faults };
}

function parseMeshPeers(text: string): number | string {
  const isNumber = /^\d{1,2}$/.test(text) && Number(text) <= MESH_PEERS_MAX;
  return isNumber ? Number(text) : `${JSON.stringify(text)} is not a number from 0 to ${MESH_PEERS_MAX}`;
}
