import { count, shortOwner } from '../words.ts';
import type { Verification } from './verification.ts';

/** Maximum number of differences to print, and of names per kind. */
const DIFFERENCES_SHOWN = 20;
const NAMES_SHOWN = 10;

const modes = {
  enforce: 'what policies deny is dropped',
  audit: 'what policies deny passes, and what they decide is compared',
  off: 'no pod is policed, and everything has to pass',
} as const;
const verdicts = {
  allow: 'allowed',
  deny: 'denied',
  reject: 'denied, with an answer to the client',
  closed: 'denied (blocked)',
  unreadable: 'not readable',
} as const;

/** Lines about the result of a verification, not escaped yet. */
export function verificationLines(found: Verification): string[] {
  const { node, mode, pods, policies, flows, cells, allowed, denied, closed, addresses, groups, proofSeconds } = found;
  return [
    `Node ${node}, mode ${mode}: ${modes[mode]}`,
    `${count(pods, 'pod')}, ${count(policies, 'policy', 'policies')}, ${count(flows, 'flow')}, ${addresses} addresses in ${count(groups, 'group')}: ` +
      `${count(cells, 'cell')} compared in ${proofSeconds.toFixed(2)} s, ${allowed} allowed, ${denied} denied${closed > 0 ? `, ${closed} of these blocked` : ''}`,
    ...otherwiseLines(found),
    ...leftOutLines(found),
    ...leftOutRulesLines(found),
    ...(found.passing > 0 ? [`${found.passing} were different in the first comparison only: the node was changing`] : []),
    ...found.problems.map((problem) => `NOT READABLE ${problem}`),
    ...shareLines(found),
    ...differenceLines(found),
    found.differencesTotal + found.problems.length + found.fullAssociationShares.length === 0
      ? 'equal: the bridge implements the policies'
      : `${found.differencesTotal + found.problems.length + found.fullAssociationShares.length} different`,
  ];
}

function shareLines({ fullAssociationShares: full }: Verification): string[] {
  if (full.length === 0) return [];
  return [
    `SCTP SHARE FULL ${listOf(full)}: answers to further associations are denied where policies isolate an end, also if policies allow them`,
  ];
}

function otherwiseLines({ otherwise }: Verification): string[] {
  return [...Map.groupBy(otherwise, ({ holds, why }) => `compared with "${holds}" in place of the policies, for ${why}`)].map(
    ([what, pods]) => `${namesOf(pods)}: ${what}`,
  );
}

function leftOutLines({ leftOut }: Verification): string[] {
  return [...Map.groupBy(leftOut, ({ why }) => why)].map(([why, pods]) => `${namesOf(pods)}: not compared, ${why}`);
}

/** The node reports these as a problem: compared as if the rules named no networks. */
function leftOutRulesLines({ leftOutRules: rules }: Verification): string[] {
  if (rules.length === 0) return [];
  return [
    `NETWORKS LEFT OUT of ${count(rules.length, 'rule')}, which count as denied (\`seinectl status\` has the reason): ${listOf(rules)}`,
  ];
}

function namesOf(pods: readonly { readonly pod: string }[]): string {
  return listOf(pods.map(({ pod }) => pod));
}

function listOf(names: readonly string[]): string {
  const shown = names.slice(0, NAMES_SHOWN).join(', ');
  return names.length > NAMES_SHOWN ? `${shown} and ${names.length - NAMES_SHOWN} more` : shown;
}

function differenceLines({ differences, differencesTotal }: Verification): string[] {
  const shown = differences.slice(0, DIFFERENCES_SHOWN);
  const rest = differencesTotal - shown.length;
  return [...shown.flatMap(linesOf), ...(rest > 0 ? [`and ${rest} more`] : [])];
}

function linesOf({
  pod,
  direction,
  peer,
  morePeers,
  protocol,
  first,
  last,
  bridge,
  policies,
  by,
  flows,
}: Verification['differences'][number]): string[] {
  const others = morePeers > 0 ? ` and ${morePeers} alike` : '';
  const ports = first === 0 && last === 65_535 ? protocol : `${protocol} ${first === last ? first : `${first}-${last}`}`;
  // Both deny: the answers differ.
  const isOfAnswers = bridge === 'reject' || policies === 'reject';
  const verdictOf = (verdict: keyof typeof verdicts) =>
    isOfAnswers && verdict === 'deny' ? 'denied, without an answer' : verdicts[verdict];
  const who = by.length === 0 ? '' : ` by ${by.join(', ')}`;
  return [
    `DIFFERENT ${direction} of ${pod} ${direction === 'ingress' ? 'from' : 'to'} ${peer}${others}, ${ports}`,
    `  policies: ${verdictOf(policies)}${who}`,
    `  bridge: ${verdictOf(bridge)}${flows.length === 0 ? ', no flow matches' : ', by'}`,
    ...flows.map(({ owner, text }) => `    ${text}${owner === undefined ? ' # no owner' : ` # ${shortOwner(owner)}`}`),
  ];
}
