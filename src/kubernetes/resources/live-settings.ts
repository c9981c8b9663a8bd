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
}

/** Longer than any value. */
const SHOWN_MAX = 32;
const namespace = 'seine-system';
const name = 'seine-live';

const schema = z.object({ data: stringMap });

/** Resource with only this object: agents may read no other ConfigMap. */
export const liveSettings: Resource<LiveSettings> = {
  kind: 'ConfigMap',
  path: `/api/v1/namespaces/${namespace}/configmaps`,
  fieldSelector: `metadata.name=${name}`,
  revision: 4,
  project: (raw) => {
    const { data } = parseObject(schema, raw);
    const keys = ['policy.mode', 'policy.denied', 'flowLog.enabled', 'trace.background'] as const;
    const [policyMode, denied, flowLog, traceBackground] = keys.map((key) => ownValue(data, key));
    return {
      ...(policyMode === undefined ? {} : { policyMode: policyMode.slice(0, SHOWN_MAX) }),
      ...(denied === undefined ? {} : { denied: denied.slice(0, SHOWN_MAX) }),
      ...(flowLog === undefined ? {} : { flowLog: flowLog.slice(0, SHOWN_MAX) }),
      ...(traceBackground === undefined ? {} : { traceBackground: traceBackground.slice(0, SHOWN_MAX) }),
    };
  },
};

/** Key of the object in a replica. */
export const liveSettingsKey = `${namespace}/${name}`;
