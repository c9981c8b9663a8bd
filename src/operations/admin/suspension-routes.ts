import type { SuspensionAnswer } from '../../api/policy.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { PodStanding } from '../../policy/controller/pod-policy-state.ts';
import type { SuspendedTarget } from '../../policy/controller/suspension-records.ts';
import type { Suspensions } from '../../policy/controller/suspensions.ts';
import { type ApiAnswer, type ApiRoutes, json } from './answer.ts';

export interface SuspensionPort {
  readonly suspensions: Pick<Suspensions, 'list' | 'suspend' | 'resume'>;
  /** Undefined until the node is known: policies can be suspended before. */
  readonly node: () => { readonly policy: { pods(): ReadonlyMap<string, PodStanding> } } | undefined;
}

/** Returns all suspensions. */
export function suspensions(port: SuspensionPort): ApiAnswer {
  return json({ items: port.suspensions.list(podsOf(port)) });
}

/** `?what=pod&name=NAMESPACE/NAME`, `?what=namespace&name=NAMESPACE` or `?what=node`; to suspend also `&seconds=` and `&reason=`. */
export function suspensionActions(port: SuspensionPort): ApiRoutes {
  return {
    '/v1/policy/suspend': async (query) => {
      const target = targetOf(query);
      const asked = { seconds: Number(query.get('seconds')), reason: query.get('reason') ?? '' };
      const isRemembered = await port.suspensions.suspend(target, asked);
      const suspension = port.suspensions.list(podsOf(port)).find(({ what, name }) => what === target.what && name === target.name);
      return json({ was: false, isRemembered, ...(suspension && { suspension }) } satisfies SuspensionAnswer);
    },
    '/v1/policy/resume': async (query) => json((await port.suspensions.resume(targetOf(query))) satisfies SuspensionAnswer),
  };
}

function targetOf(query: URLSearchParams): SuspendedTarget {
  const what = query.get('what');
  if (what !== 'pod' && what !== 'namespace' && what !== 'node')
    throw new SeineError('INVALID_INPUT', `what: ${JSON.stringify(what)} is none of pod, namespace and node`);
  return { what, name: query.get('name') ?? '' };
}

function podsOf({ node }: SuspensionPort): Iterable<string> {
  return node()?.policy.pods().keys() ?? [];
}
