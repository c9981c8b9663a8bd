import type { Log } from '../base/log/log.ts';
import type { PolicyMode } from '../dataplane/compile/environment.ts';
import type { Replica } from '../kubernetes/client/replica/replica.ts';
import { type LiveSettings, liveSettingsKey } from '../kubernetes/resources/live-settings.ts';
import type { Node } from '../kubernetes/resources/node.ts';
import type { LiveEnvironment } from '../nodes/local/live-environment.ts';
import { nodeDenied, nodePolicyMode } from '../nodes/local/policy-mode.ts';
import type { AgentConfig } from './config/agent-config.ts';

interface PolicyModeOptions {
  readonly config: Pick<AgentConfig, 'nodeName' | 'policy'>;
  readonly live: Pick<LiveEnvironment, 'current' | 'subscribe'>;
  readonly nodes: Pick<Replica<Node>, 'get' | 'subscribe'>;
  readonly settings: Pick<Replica<LiveSettings>, 'get' | 'subscribe'>;
  readonly warnings: Map<string, readonly string[]>;
  readonly postNodeEvent: (reason: string, message: string, type: 'Normal' | 'Warning') => void;
  readonly log: Log;
}

/** Name of the warning. */
const WARNING = 'policy mode';

const meanings: Readonly<Record<PolicyMode, string>> = {
  enforce: 'what policies deny is dropped',
  audit: 'what policies deny is counted and passes',
  off: 'no pod is policed',
};

/** Reports changes of the node's policy mode as events of the Node. An invalid mode is a warning, and an event. */
export function reportPolicyMode(options: PolicyModeOptions): void {
  const { live, postNodeEvent, log } = options;
  const mode = live.current.policyMode ?? 'enforce';
  if (mode !== 'enforce') log.warn('NetworkPolicy is not enforced on this node', { mode, meaning: meanings[mode] });
  live.subscribe(({ policyMode: now = 'enforce' }, { policyMode: before = 'enforce' }) => {
    if (now === before) return;
    const message = `the policy mode of this node is ${now}, and was ${before}: ${meanings[now]}`;
    postNodeEvent('PolicyModeChanged', message, now === 'enforce' ? 'Normal' : 'Warning');
  });
  warnOfFaults(options);
}

function warnOfFaults({ config, nodes, settings, warnings, postNodeEvent, log }: PolicyModeOptions): void {
  let named: readonly string[] = [];
  const look = (): void => {
    const [node, live] = [nodes.get(config.nodeName), settings.get(liveSettingsKey)];
    const faults = [
      ...nodePolicyMode.faults({ annotation: node?.policyMode, live: live?.policyMode, configured: config.policy.mode }),
      ...nodeDenied.faults({ annotation: node?.denied, live: live?.denied, configured: config.policy.denied }),
    ];
    if (faults.length === 0) warnings.delete(WARNING);
    else warnings.set(WARNING, faults);
    for (const fault of faults.filter((each) => !named.includes(each))) {
      log.warn('invalid policy mode', { reason: fault });
      postNodeEvent('PolicyModeInvalid', fault, 'Warning');
    }
    named = faults;
  };
  look();
  nodes.subscribe((names) => void (names.has(config.nodeName) && look()));
  settings.subscribe(look);
}
