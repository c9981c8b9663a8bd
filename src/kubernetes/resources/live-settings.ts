import * as z from 'zod';
import { ownValue, parseObject, type Resource, stringMap } from '../client/resource.ts';

/** The ConfigMap `seine-live` of `seine-system`: what holds on all nodes, and is followed while agents run. */
export interface LiveSettings {
  /** What `policy.mode` of it says, cut to what is shown; absent if it says nothing. */
  readonly policyMode?: string;
}

/** Longer than any mode. */
const MODE_SHOWN_MAX = 32;
const namespace = 'seine-system';
const name = 'seine-live';

const schema = z.object({ data: stringMap });

/** Of this one object: agents may read no other ConfigMap. */
export const liveSettings: Resource<LiveSettings> = {
  kind: 'ConfigMap',
  path: `/api/v1/namespaces/${namespace}/configmaps`,
  fieldSelector: `metadata.name=${name}`,
  revision: 1,
  project: (raw) => {
    const policyMode = ownValue(parseObject(schema, raw).data, 'policy.mode');
    return policyMode === undefined ? {} : { policyMode: policyMode.slice(0, MODE_SHOWN_MAX) };
  },
};

/** Where a replica of them has it. */
export const liveSettingsKey = `${namespace}/${name}`;
