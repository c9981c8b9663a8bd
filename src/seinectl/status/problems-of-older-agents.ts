import type { AgentStatus, ConnectionStatus, PartStatus, PoolStatus, SourceStatus } from '../../api/status.ts';
import { count, failureText, shortOwner } from '../words.ts';
import { connectionWords, partWords, type SourceReliance, sourceReliance } from './status-words.ts';

/** Used part of a pool above which it is reported. */
const FULL = 0.9;

/** Problems as sentences, from the answer of an agent that does not report them itself: up to 0.2.0. */
export function problemsOfOlderAgent(status: AgentStatus): string[] {
  const { readiness, connections, sources, parts, pods, objections, warnings = [] } = status;
  return [
    ...(readiness.state === 'ready' ? [] : [`not ready (${readiness.state}): ${readiness.reason ?? 'no reason given'}`]),
    ...connections.filter(({ up }) => !up).map((each) => `${connectionWords[each.name] ?? each.name} is not connected${because(each)}`),
    ...sources.flatMap(sourceProblems),
    ...parts.flatMap(partProblems),
    ...warnings,
    ...objections.first.map(({ kind, name, reasons }) => `${kind} ${name} is not served as specified: ${reasons.join('; ')}`),
    ...(objections.count > objections.first.length
      ? [`${objections.count - objections.first.length} more objects are not served as specified`]
      : []),
    ...pods.pools
      .filter(isFull)
      .map(({ cidr, size, allocated, quarantined }) => `${allocated + quarantined} of ${size} addresses of ${cidr} are in use`),
    ...(pods.journalError ? [`no address can be allocated: ${failureText(pods.journalError)}`] : []),
  ];
}

function sourceProblems(source: SourceStatus): string[] {
  const { kind, held, failures, invalid, objects } = source;
  const state = sourceReliance(source);
  const known = count(objects, 'object');
  const words: Readonly<Record<SourceReliance, string | undefined>> = {
    'in step': undefined,
    'not confirmed': `not confirmed by the API server; ${known} from before`,
    held: held && `a list lacks ${held.missing} of ${held.known} objects; nothing is removed until a second list agrees`,
    refused: `the API server denies access; ${known} from before`,
    gone: `the API server does not have this resource; ${known} from before, none of which is removed`,
    behind: `the API server has an older state than before; ${known} from before`,
    failing: `the API server cannot be followed, ${count(failures, 'failure')} in a row`,
  };
  const said = words[state];
  return [
    ...(said === undefined ? [] : [`${kind}: ${said}${because(source)}`]),
    ...invalid.map(({ name, message }) => `${kind} ${name} is invalid: ${failureText({ message })}`),
  ];
}

function partProblems({ part, refused, contested, lastError }: PartStatus): string[] {
  const name = partWords[part] ?? part;
  return [
    ...(lastError ? [`${name}: ${failureText(lastError)}`] : []),
    ...refused.map(({ owner, error }) => `${name}: entries of ${shortOwner(owner)} are refused: ${failureText(error)}`),
    ...(contested > 0 ? [`${name}: another program keeps changing ${count(contested, 'entry', 'entries')}`] : []),
  ];
}

function because({ lastError }: Pick<ConnectionStatus, 'lastError'>): string {
  return lastError ? `: ${failureText(lastError)}` : '';
}

function isFull({ size, allocated, quarantined }: PoolStatus): boolean {
  return allocated + quarantined >= size * FULL;
}
