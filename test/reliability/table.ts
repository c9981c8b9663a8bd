import type { FaultRow } from './run-fault.ts';

const heads = [
  'What happens',
  'UDP lost / sent',
  'longest UDP gap',
  'connects failed / tried',
  'slowest connect',
  'longest stall',
  'connections broken',
  'first answer / all streams back',
  'Notes',
];

/** Table in Markdown. */
export function table(rows: readonly FaultRow[]): string {
  const lines = rows.map((row) => [
    `${row.what} (\`${row.name}\`)`,
    `${row.udpLost} / ${row.udpSent}${row.udpLost > 0 && row.udpLostOnTheNode === 0 ? ', none on the node' : ''}`,
    row.udpLost === 0 ? '–' : ms(row.udpGapMs),
    `${row.connectsFailed} / ${row.connects}`,
    ms(row.slowestConnectMs),
    ms(row.stallMs),
    String(row.broken),
    row.firstBackMs === undefined || row.allBackMs === undefined ? 'never' : `${ms(row.firstBackMs)} / ${ms(row.allBackMs)}`,
    [...row.notes, ...row.problems.map((problem) => `**✗ ${problem}**`)].join('; ').replaceAll('|', '\\|').replaceAll('\n', ' '),
  ]);
  return [heads, heads.map(() => '---'), ...lines].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

function ms(value: number): string {
  return `${value} ms`;
}
