import type { FoundProblem } from '../../../api/problem.ts';
import { sourceName } from '../../../api/source-name.ts';
import type { AgentStatus, ConnectionStatus, PartStatus, PoolStatus, SourceStatus } from '../../../api/status.ts';
import { withoutCode } from '../../../base/errors/seine-error.ts';
import { policyProblems } from './policy-facts.ts';

/** Used part of a pool above which it is reported. */
const FULL = 0.9;
/** Duration of a change above which it is reported: changes take milliseconds, thousands of them a second or two. */
const BEHIND_SECONDS = 5;

/** Values and states of the agent, some of which are problems. */
export type StatusFacts = Pick<
  AgentStatus,
  'readiness' | 'connections' | 'sources' | 'parts' | 'pods' | 'objections' | 'networkPolicy' | 'repair'
>;

/** Problems that need an operator, worst first. */
export function agentProblems(facts: StatusFacts): readonly FoundProblem[] {
  const { readiness, connections, sources, parts, pods, objections, networkPolicy, repair } = facts;
  return [
    ...(readiness.state === 'ready' ? [] : [notReady(readiness)]),
    ...connections.filter(({ up }) => !up).map(notConnected),
    ...sources.flatMap(ofSource),
    ...parts.flatMap(ofPart),
    ...(repair ? [paused(repair.pausedForSeconds)] : []),
    ...policyProblems(networkPolicy),
    ...ofObjects(objections),
    ...pods.pools.filter(isFull).map(nearlyFull),
    ...(pods.journalError
      ? [{ kind: 'journal', about: 'ipam', message: `no address can be allocated: ${withoutCode(pods.journalError.message)}` } as const]
      : []),
  ];
}

function notReady({ state, reason = 'no reason given' }: AgentStatus['readiness']): FoundProblem {
  return { kind: 'agent.ready', about: state, message: `not ready (${state}): ${reason}` };
}

function paused(seconds: number): FoundProblem {
  const message = `repair is paused: foreign changes stay for another ${seconds} s`;
  return { kind: 'agent.repair', about: 'pause', message, remedy: 'seinectl resume' };
}

const connectionWords: Readonly<Record<ConnectionStatus['name'], string>> = {
  ovsdb: 'OVSDB',
  openflow: 'the bridge (OpenFlow, flows)',
  packetIn: 'the bridge (OpenFlow, packets)',
};

function notConnected({ name, lastError }: ConnectionStatus): FoundProblem {
  const cause = lastError ? `: ${withoutCode(lastError.message)}` : '';
  return { kind: 'connection', about: name, message: `${connectionWords[name]} is not connected${cause}` };
}

function ofSource({ kind, state = 'in step', held, failures, invalid, objects, lastError }: SourceStatus): readonly FoundProblem[] {
  const known = `${objects} objects from before`;
  const words: Readonly<Record<NonNullable<SourceStatus['state']>, string | undefined>> = {
    'in step': undefined,
    'not confirmed': `not confirmed by the API server; ${known}`,
    held: held && `a list lacks ${held.missing} of ${held.known} objects; nothing is removed until a second list agrees`,
    refused: `the API server denies access; ${known}`,
    gone: `the API server does not have this resource; ${known}, none of which is removed`,
    behind: `the API server has an older state than before; ${known}`,
    failing: `the API server cannot be followed, ${failures} failures in a row`,
  };
  const said = words[state];
  const cause = lastError ? `: ${withoutCode(lastError.message)}` : '';
  return [
    ...(said === undefined ? [] : [{ kind: 'source', about: kind, message: `${sourceName(kind)}: ${said}${cause}` } as const]),
    ...invalid.map(
      ({ name, message }) =>
        ({ kind: 'source.object', about: `${kind} ${name}`, message: `${kind} ${name} is invalid: ${withoutCode(message)}` }) as const,
    ),
  ];
}

function ofPart({ part, refused, refusedCount = refused.length, contested, repairing = 0, behindSeconds = 0, lastError }: PartStatus) {
  const more = refusedCount - refused.length;
  const found: readonly (FoundProblem | undefined)[] = [
    lastError && { kind: 'part.failing', about: part, part, message: `${part}: ${withoutCode(lastError.message)}` },
    ...refused.map(({ owner, error }): FoundProblem => {
      const message = `${part}: entries of ${owner} are refused: ${withoutCode(error.message)}`;
      return { kind: 'part.refused', about: owner, part, message, remedy: 'seinectl diff' };
    }),
    more > 0 ? { kind: 'part.refused', about: 'more', part, message: `${part}: entries of ${more} more owners are refused` } : undefined,
    contested > 0
      ? {
          kind: 'part.contested',
          about: part,
          part,
          message: `${part}: another program keeps changing ${entries(contested)}`,
          remedy: 'seinectl diff',
        }
      : undefined,
    repairing > 0
      ? { kind: 'part.drift', about: part, part, message: `${part}: another program changed ${entries(repairing)}; being repaired` }
      : undefined,
    behindSeconds > BEHIND_SECONDS
      ? {
          kind: 'part.behind',
          about: part,
          part,
          message: `${part}: desired entries have been missing for ${behindSeconds} s`,
          remedy: 'seinectl diff',
        }
      : undefined,
  ];
  return found.filter((problem) => problem !== undefined);
}

function entries(count: number): string {
  return count === 1 ? '1 entry' : `${count} entries`;
}

function ofObjects({ count, first }: AgentStatus['objections']): readonly FoundProblem[] {
  const more = count - first.length;
  return [
    ...first.map(({ kind, name, reasons }): FoundProblem => {
      return { kind: 'object', about: `${kind} ${name}`, message: `${kind} ${name} is not served as specified: ${reasons.join('; ')}` };
    }),
    ...(more > 0 ? [{ kind: 'object', about: 'more', message: `${more} more objects are not served as specified` } as const] : []),
  ];
}

function isFull({ size, allocated, quarantined }: PoolStatus): boolean {
  return allocated + quarantined >= size * FULL;
}

function nearlyFull({ cidr, size, allocated, quarantined }: PoolStatus): FoundProblem {
  return { kind: 'addresses', about: cidr, message: `${allocated + quarantined} of ${size} addresses of ${cidr} are in use` };
}
