import { SeineError } from '../../base/errors/seine-error.ts';
import type { ReachChange } from '../../policy/reach/difference.ts';
import { documentsOf } from '../../policy/reach/manifest-documents.ts';
import { whatIfView } from '../../simulate/views/what-if-view.ts';
import { itemsOf, type Proposal } from '../../simulate/what-if/proposal.ts';
import { type WhatIf, whatIf } from '../../simulate/what-if/what-if.ts';
import type { ClusterWhatIf, WhatIfMark } from '../../ui/answers/what-if.ts';
import { usersAccess } from '../fleet/kubeconfig.ts';
import type { SimulationSource } from '../simulate/simulated-source.ts';
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
  const proposal = proposalOf(query, text);
  const { kubeconfig, context, agentNamespace, env } = cluster;
  const access = usersAccess({ ...(kubeconfig && { kubeconfig }), ...(context && { context }) }, env);
  const options = { isTried: true, isUseAsked: true, sinceSeconds: USED_SECONDS, namespace: agentNamespace };
  const { result, texts } = await clusterWhatIf(access, proposal, options);
  const { unknown, nodes } = texts.used;
  return {
    ...whatIfView(result, usedTextsOf(result, texts)),
    ...markedCells(result, query),
    missing: texts.missing,
    remarks: texts.remarks,
    evidence: [
      ...evidenceTexts(texts.used),
      ...(unknown === undefined ? [] : [`Use is not ${nodes.length > 0 ? 'completely ' : ''}known: ${unknown}.`]),
    ],
  };
}

/** The same for the objects of support bundles. @throws SeineError `INVALID_INPUT` for the proposal */
export function bundledWhatIf(query: URLSearchParams, text: string, { cluster, lacks }: SimulationSource): ClusterWhatIf {
  const result = whatIf(cluster.objects, proposalOf(query, text));
  const evidence = ['Use is not known: a bundle has sums of connections, and not the connections.'];
  return { ...whatIfView(result), ...markedCells(result, query), missing: lacks, remarks: [], evidence };
}

/** @throws SeineError `INVALID_INPUT` that names the place */
function proposalOf(query: URLSearchParams, text: string): Proposal {
  const removed = query.getAll('delete').filter((name) => name !== '');
  if (removed.length > REMOVED_MAX || removed.some((name) => name.length > NAME_CHARACTERS_MAX))
    throw new SeineError('INVALID_INPUT', `delete: at most ${REMOVED_MAX} objects, KIND/NAMESPACE/NAME`);
  const documents = documentsOf('proposal', text).flatMap(itemsOf);
  if (documents.length === 0 && removed.length === 0) throw new SeineError('INVALID_INPUT', 'nothing is proposed');
  return { documents, removed };
}

function markedCells({ connections }: WhatIf, query: URLSearchParams): Pick<ClusterWhatIf, 'marks' | 'moreMarks'> {
  const marks = marksOf(connections, query.get('namespace') ?? '');
  return { marks: marks.slice(0, MARKS_MAX), moreMarks: Math.max(0, marks.length - MARKS_MAX) };
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
