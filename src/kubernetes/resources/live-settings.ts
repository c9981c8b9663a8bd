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
  revision: 4,
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
