import type { ConnectionEndView, ConnectionPolicyView } from '../../api/policy.ts';

const verdicts = { allow: 'allowed', deny: 'denied', mixed: 'allowed in part' } as const;

/** Lines about whether a connection may be opened, not escaped yet. */
export function connectionLines({ from, to, port, verdict, ends, remarks }: ConnectionPolicyView): string[] {
  return [
    `${from} to ${to}${port === undefined ? '' : ` port ${port}`}: ${verdicts[verdict]}${remarks.length === 0 ? '' : ', as far as this node decides'}`,
    ...ends.flatMap(endLines),
    ...remarks.map((remark) => `${remark}.`),
  ];
}

function endLines({ direction, pod, from, to, ports, verdict, why, by, change, refused }: ConnectionEndView): string[] {
  const because = by.length === 0 ? why : verdict === 'allow' ? `by ${by.join(', ')}` : `${why}; isolated by ${by.join(', ')}`;
  return [
    `  ${direction} of ${pod} (${from} to ${to}), ${ports.startsWith('any') ? `${ports} port` : ports}: ${verdicts[verdict]}${refused ? ' and refused' : ''}, ${because}`,
    `    to change that: ${change}.`,
  ];
}
