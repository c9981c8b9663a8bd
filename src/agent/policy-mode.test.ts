import { expect, it } from 'vitest';
import { silentLog } from '../base/log/log.ts';
import type { NodeEnvironment } from '../dataplane/compile/environment.ts';
import { ReplicaStore } from '../kubernetes/client/replica/replica.ts';
import { type LiveSettings, liveSettingsKey } from '../kubernetes/resources/live-settings.ts';
import type { Node } from '../kubernetes/resources/node.ts';
import { parseConfig } from './config/agent-config.ts';
import { reportPolicyMode } from './policy-mode.ts';

const node: Node = { name: 'n1', uid: 'u', podCidrs: [], internalIps: [], deleting: false };

function setUp() {
  const nodes = new ReplicaStore<Node>();
  const settings = new ReplicaStore<LiveSettings>();
  const warnings = new Map<string, readonly string[]>();
  const events: string[] = [];
  const listeners: Parameters<Parameters<typeof reportPolicyMode>[0]['live']['subscribe']>[0][] = [];
  const subscribe = (one: (typeof listeners)[number]) => {
    listeners.push(one);
    return () => undefined;
  };
  const live = { current: {} as NodeEnvironment, subscribe };
  const postNodeEvent = (reason: string, message: string, type: string) => void events.push(`${type} ${reason} ${message}`);
  reportPolicyMode({ config: parseConfig('', { NODE_NAME: 'n1' }), live, nodes, settings, warnings, postNodeEvent, log: silentLog });
  let version = 0;
  const annotate = (name: string, policyMode?: string): void => {
    nodes.put(name, String((version += 1)), { ...node, name, ...(policyMode === undefined ? {} : { policyMode }) });
    nodes.flush();
  };
  const sayOfAll = (policyMode: string): void => {
    settings.put(liveSettingsKey, String((version += 1)), { policyMode });
    settings.flush();
  };
  const refuse = (denied: string): void => {
    settings.put(liveSettingsKey, String((version += 1)), { denied });
    settings.flush();
  };
  const become = (now: object, before: object) => {
    for (const listener of listeners) listener(now as NodeEnvironment, before as NodeEnvironment);
  };
  return { warnings, events, annotate, sayOfAll, refuse, become };
}

it('warns about an annotation with an invalid mode, as long as it exists, of its own node only', () => {
  const t = setUp();
  t.annotate('n2', 'x');
  expect(t.warnings.size).toBe(0);
  t.annotate('n1', 'Audit');
  t.annotate('n1', 'Audit');
  const fault = 'the Node\'s annotation seine.dev/policy-mode is "Audit", which is not one of enforce, audit, off: enforce is in force';
  expect([...t.warnings.values()]).toEqual([[fault]]);
  expect(t.events).toEqual([`Warning PolicyModeInvalid ${fault}`]);
  t.annotate('n1', 'audit');
  expect(t.warnings.size).toBe(0);
});

it('warns about a ConfigMap with an invalid mode, separately from the annotation', () => {
  const t = setUp();
  t.sayOfAll('Audit');
  const fault = 'policy.mode in ConfigMap seine-system/seine-live is "Audit", which is not one of enforce, audit, off: enforce is in force';
  expect([...t.warnings.values()]).toEqual([[fault]]);
  t.annotate('n1', 'of');
  expect([...t.warnings.values()].flat()).toHaveLength(2);
  t.sayOfAll('audit');
  t.annotate('n1', 'off');
  expect(t.warnings.size).toBe(0);
  // Another mode is in force instead, which is reported, too.
  expect(t.events).toHaveLength(3);
});

it('posts an event of a change, a warning where policies stop being enforced', () => {
  const t = setUp();
  t.become({ policyMode: 'audit' }, {});
  t.become({ policyMode: 'audit', podCidrs: [] }, { policyMode: 'audit' });
  t.become({}, { policyMode: 'audit' });
  expect(t.events).toEqual([
    'Warning PolicyModeChanged the policy mode of this node is audit, and was enforce: what policies deny is counted and passes',
    'Normal PolicyModeChanged the policy mode of this node is enforce, and was audit: what policies deny is dropped',
  ]);
});

it('warns about an invalid answer to denied pods, separately from the mode', () => {
  const t = setUp();
  t.refuse('reset');
  const fault = 'policy.denied in ConfigMap seine-system/seine-live is "reset", which is not one of drop, reject: drop is in force';
  expect([...t.warnings.values()]).toEqual([[fault]]);
  expect(t.events).toEqual([`Warning PolicyModeInvalid ${fault}`]);
  t.refuse('reject');
  expect(t.warnings.size).toBe(0);
});
