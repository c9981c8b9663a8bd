import { nothing } from '../../src/dataplane/desired/host-entries.ts';
import type { Owner } from '../../src/dataplane/pipeline/cookie.ts';
import type { Flow } from '../../src/dataplane/pipeline/flow.ts';
import { type BridgeKey, type BridgeValue, encodeBridgeEntries } from '../../src/dataplane/targets/bridge/bridge-entry.ts';
import { recoveredFlows } from '../../src/dataplane/targets/bridge/recovered-flows.ts';
import type { PolicyEngine } from '../../src/policy/engine/policy-engine.ts';
import { PolicyFlows } from '../../src/policy/flows/policy-flows.ts';
import { policyTables } from '../../src/policy/flows/rows.ts';

export const families = ['ipv4', 'ipv6'] as const;

/** Desired flows of policy, as the agent keeps them: each owner's flows, and their entries. */
export class WrittenPolicy {
  readonly flows: PolicyFlows;
  readonly byOwner = new Map<Owner, readonly Flow[]>();
  readonly #engine: PolicyEngine;

  constructor(engine: PolicyEngine, held: ReadonlyMap<BridgeKey, BridgeValue> = new Map()) {
    this.#engine = engine;
    this.flows = new PolicyFlows({ families, recovered: recoveredFlows(held, policyTables) });
  }

  update(): ReadonlyMap<Owner, readonly Flow[]> {
    const change = this.#engine.update();
    const { wanted } = this.flows.update(this.#engine.matrix, change);
    for (const [owner, flows] of wanted)
      if (flows.length === 0) this.byOwner.delete(owner);
      else this.byOwner.set(owner, flows);
    return wanted;
  }

  entries(): ReadonlyMap<BridgeKey, BridgeValue> {
    const all = new Map<BridgeKey, BridgeValue>();
    for (const [owner, flows] of this.byOwner)
      for (const [key, value] of encodeBridgeEntries(owner, { ...nothing, flows })) all.set(key, value);
    return all;
  }
}
