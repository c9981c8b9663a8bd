import { parseIp } from '../../src/base/net/ip.ts';
import { compileSubject, entriesOfOthers } from '../../src/dataplane/compile/compile-entry.ts';
import { compileVerdicts } from '../../src/dataplane/compile/compile-verdict.ts';
import type { NodeEnvironment } from '../../src/dataplane/compile/environment.ts';
import { nothing } from '../../src/dataplane/desired/host-entries.ts';
import { ownerOf } from '../../src/dataplane/pipeline/cookie.ts';
import { decodeFlowEntry, encodeBridgeEntries } from '../../src/dataplane/targets/bridge/bridge-entry.ts';
import type { PolicyEngine } from '../../src/policy/engine/policy-engine.ts';
import type { HeldFlow } from '../../src/policy/verify/flow-reader/table-index.ts';
import { WrittenPolicy } from './policy-flow-run.ts';

export interface BridgedPod {
  readonly pod: string;
  readonly ofPort: number;
  readonly addresses: readonly string[];
}

/** All flows that decide about packets of these pods on a bridge, as bytes: the node's rows, policy's, and the pods' own. */
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
