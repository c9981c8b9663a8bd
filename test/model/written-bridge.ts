import { compileSubject, entriesOfOthers } from '../../src/connectivity/compile-entry.ts';
import { compileVerdicts } from '../../src/connectivity/compile-verdict.ts';
import type { NodeEnvironment } from '../../src/connectivity/environment.ts';
import { parseIp } from '../../src/net/ip.ts';
import { ownerOf } from '../../src/pipeline/cookie.ts';
import type { PolicyEngine } from '../../src/policy/policy-engine.ts';
import type { HeldFlow } from '../../src/policy-bytes/table-index.ts';
import { decodeFlowEntry, encodeBridgeEntries } from '../../src/reconcile/bridge-entry.ts';
import { nothing } from '../../src/wanted/wanted.ts';
import { WrittenPolicy } from './policy-flow-run.ts';

export interface BridgedPod {
  readonly pod: string;
  readonly ofPort: number;
  readonly addresses: readonly string[];
}

/** All that decides about packets of these pods on a bridge, as its octets: the node's rows, policy's, and the pods' own. */
export function writtenBridge(engine: PolicyEngine, node: NodeEnvironment, pods: readonly BridgedPod[]): HeldFlow[] {
  const policy = new WrittenPolicy(engine);
  policy.update();
  const subjects = pods.flatMap(({ pod, ofPort, addresses }) => {
    const classes = policy.flows.classesOf(pod);
    const ends = classes === 'free' ? {} : classes === 'closed' ? ({ ingress: 'closed', egress: 'closed' } as const) : classes;
    return compileSubject({ ofPort, addresses: addresses.map(parseIp), ...ends });
  });
  const flows = [...entriesOfOthers(node), ...compileVerdicts(node), ...subjects];
  const rest = encodeBridgeEntries(ownerOf('node'), { ...nothing, flows });
  return [...rest, ...policy.entries()].map(([key, value]) => decodeFlowEntry(key, value));
}
