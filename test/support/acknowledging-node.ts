import { nothing, type Wanted } from '../../src/dataplane/desired/host-entries.ts';
import type { Owner } from '../../src/dataplane/pipeline/cookie.ts';
import type { PolicyControllerOptions } from '../../src/policy/controller/policy-controller.ts';

type PolicyNodeState = PolicyControllerOptions['nodeState'];

/** Node whose OVS acknowledges everything at once. Each change of an owner is reported; without entries it is a removal. */
export function acknowledgingNode(changed: (owner: Owner, wanted: Wanted | undefined) => void): PolicyNodeState {
  const report = (owner: Owner, wanted: Wanted | undefined): ReturnType<PolicyNodeState['want']> => {
    changed(owner, wanted);
    return { owner, bridge: 1, host: 1 };
  };
  return {
    want: report,
    wantRow: (owner, { rows, ip, number }) => report(owner, { ...nothing, flows: [rows.flowOf(ip, number)] }),
    wantPod: (owner, wanted) => report(owner, 'pattern' in wanted ? { ...nothing, flows: wanted.pattern(wanted.place) } : wanted),
    forget: (owner) => report(owner, undefined),
    together: (work) => work(),
    realized: async () => undefined,
    hasPolicyLeftovers: () => false,
    bridge: { revision: 1 },
    reconcilers: { bridge: { realizedRevision: 1, held: async () => undefined, isHeld: () => true, failures: () => [] } },
  };
}
