import { SeineError } from '../../base/errors/seine-error.ts';
import type { ReachChange } from '../../policy/reach/difference.ts';
import { documentsOf } from '../../policy/reach/manifest-documents.ts';
import { whatIfView } from '../../simulate/views/what-if-view.ts';
import { itemsOf } from '../../simulate/what-if/proposal.ts';
import type { ClusterWhatIf, WhatIfMark } from '../../ui/answers/what-if.ts';
import { usersAccess } from '../fleet/kubeconfig.ts';
import { clusterWhatIf } from '../what-if/run-what-if.ts';
import { evidenceTexts, usedTextsOf } from '../what-if/what-if-report.ts';
import type { ShownCluster } from './cluster-connection.ts';

/** How far back connections count as used (s). */
const USED_SECONDS = 86_400;
/** Objects to delete, characters of a name, and pairs that are marked: as many as the matrix shows. */
const REMOVED_MAX = 100;
const NAME_CHARACTERS_MAX = 300;
const MARKS_MAX = 6_400;

/**
 * Runs `seinectl whatif`.
 *
 * @param text YAML or JSON documents of the proposal
 * @throws SeineError `INVALID_INPUT` for the proposal, `REFUSED` for a right, `UNAVAILABLE`
 */
export async function whatIfAnswer(query: URLSearchParams, text: string, cluster: ShownCluster): Promise<ClusterWhatIf> {
  const removed = query.getAll('delete').filter((name) => name !== '');
  if (removed.length > REMOVED_MAX || removed.some((name) => name.length > NAME_CHARACTERS_MAX))
    throw new SeineError('INVALID_INPUT', `delete: at most ${REMOVED_MAX} objects, KIND/NAMESPACE/NAME`);
  const documents = documentsOf('proposal', text).flatMap(itemsOf);
  if (documents.length === 0 && removed.length === 0) throw new SeineError('INVALID_INPUT', 'nothing is proposed');
  const { kubeconfig, context, agentNamespace, env } = cluster;
  const access = usersAccess({ ...(kubeconfig && { kubeconfig }), ...(context && { context }) }, env);
  const options = { isTried: true, isUseAsked: true, sinceSeconds: USED_SECONDS, namespace: agentNamespace };
  const { result, texts } = await clusterWhatIf(access, { documents, removed }, options);
  const { unknown, nodes } = texts.used;
  const marks = marksOf(result.connections, query.get('namespace') ?? '');
  return {
    ...whatIfView(result, usedTextsOf(result, texts)),
    marks: marks.slice(0, MARKS_MAX),
    moreMarks: Math.max(0, marks.length - MARKS_MAX),
    missing: texts.missing,
    remarks: texts.remarks,
    evidence: [
      ...evidenceTexts(texts.used),
      ...(unknown === undefined ? [] : [`Use is not ${nodes.length > 0 ? 'completely ' : ''}known: ${unknown}.`]),
    ],
  };
}

/** Pairs with an end in the namespace whose connections open or close. Pure. */
export function marksOf(connections: readonly ReachChange[], namespace: string): readonly WhatIfMark[] {
  const isOwn = (end: string): boolean => end.startsWith(`${namespace}/`);
  const marks = new Map<string, WhatIfMark>();
  for (const { from, to, change } of connections) {
    if (change === 'other rule' || (!isOwn(from) && !isOwn(to))) continue;
    const key = `${from}\n${to}`;
    const effect = change === 'closed' ? 'breaks' : 'opens';
    const known = marks.get(key)?.effect;
    marks.set(key, { from, to, effect: known === undefined || known === effect ? effect : 'both' });
  }
  return [...marks.values()];
}
