import type { FoundProblem } from '../../../api/problem.ts';
import type { OpenFlowConnection } from '../../../openflow/connection/connection.ts';
import { associationsOfOneSender, readFullShares, readUnlearnedAssociations } from './sctp-associations.ts';

const CHECK_EVERY_MS = 60_000;
/** Maximum number of senders that are named. */
const NAMED_MAX = 10;

/** Checks whether senders have used up their share of SCTP associations. Learned flows, which may be a hundred thousand, are read only if packets had no room. */
export function associationCheck(openflow: Pick<OpenFlowConnection, 'dumpFlows'>) {
  let unlearned = 0n;
  let isFull = false;
  return {
    name: 'associations',
    everyMs: CHECK_EVERY_MS,
    run: async (signal: AbortSignal) => {
      const now = await readUnlearnedAssociations(openflow, signal);
      const full = now !== unlearned || isFull ? await readFullShares(openflow, signal) : [];
      [unlearned, isFull] = [now, full.length > 0];
      return { problems: full.slice(0, NAMED_MAX).map(problemOf) };
    },
  };
}

function problemOf(address: string): FoundProblem {
  return {
    kind: 'policy.associations',
    about: address,
    message: `${address} has used up its share of ${associationsOfOneSender} SCTP associations: answers to further ones are denied where policies isolate an end`,
    remedy: 'seinectl get flows --table associations    # then open fewer associations',
  };
}
