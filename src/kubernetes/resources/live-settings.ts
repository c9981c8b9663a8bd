import * as z from 'zod';
import { ownValue, parseObject, type Resource, stringMap } from '../client/resource.ts';

/** ConfigMap `seine-live` of `seine-system`: settings of all nodes that agents follow while they run. */
export interface LiveSettings {
  /** Value of `policy.mode`, truncated for display; absent if it is not set. */
  readonly policyMode?: string;
  /** Value of `policy.denied`, likewise. */
  readonly denied?: string;
  /** Value of `flowLog.enabled`, likewise. */
  readonly flowLog?: string;
  /** Value of `flowLog.sampling`, likewise. */
  readonly flowSampling?: string;
  /** Value of `trace.background`, likewise. */
  readonly traceBackground?: string;
  /** Values of `mesh.interval` and `mesh.peers`, likewise. */
  readonly meshInterval?: string;
  readonly meshPeers?: string;
}

/** Longer than any value. */
const SHOWN_MAX = 32;
const namespace = 'seine-system';
const name = 'seine-live';

/** Keys of the ConfigMap. */
const keys: Readonly<Record<keyof LiveSettings, string>> = {
  policyMode: 'policy.mode',
  denied: 'policy.denied',
  flowLog: 'flowLog.enabled',
  flowSampling: 'flowLog.sampling',
  traceBackground: 'trace.background',
  meshInterval: 'mesh.interval',
  meshPeers: 'mesh.peers',
};

const schema = z.object({ data: stringMap });

/** Resource with only this object: agents may read no other ConfigMap. */
export const liveSettings: Resource<LiveSettings> = {
  kind: 'ConfigMap',
  path: `/api/v1/namespaces/${namespace}/configmaps`,
  fieldSelector: `metadata.name=${name}`,
  revision: 5,
  project: (raw) => {
    const { data } = parseObject(schema, raw);
    const set = Object.entries(keys).flatMap(([member, key]) => {
      const value = ownValue(data, key);
      return value === undefined ? [] : [[member, value.slice(0, SHOWN_MAX)]];
    });
    return Object.fromEntries(set) as LiveSettings;
  },
};

/** Key of the object in a replica. */
export const liveSettingsKey = `${namespace}/${name}`;

/** Settings of all nodes, as a replica has them. */
export interface FollowedSettings {
  get(key: string): LiveSettings | undefined;
  subscribe(listener: () => void): unknown;
}

/** Reasons why set values do not count, by name. */
export type SettingWarnings = Map<string, readonly string[]>;

/**
 * Follows a setting as long as the agent runs.
 *
 * @param read returns the value in force and the reasons why a set value does not count, one sentence each
 * @returns a function that returns the value in force
 */
export function followSetting<Value>(
  settings: FollowedSettings,
  { name, warnings }: { readonly name: string; readonly warnings: SettingWarnings },
  read: (live: LiveSettings | undefined) => { readonly value: Value; readonly faults: readonly string[] },
): () => Value {
  const apply = (): Value => {
    const { value, faults } = read(settings.get(liveSettingsKey));
    if (faults.length === 0) warnings.delete(name);
    else warnings.set(name, faults);
    return value;
  };
  let inForce = apply();
  settings.subscribe(() => {
    inForce = apply();
  });
  return () => inForce;
}
