import type { RotationAnswer } from '../../api/wireguard.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { Answers, NodeAnswer } from '../fleet/answers.ts';
import { type Room, type TableColumn, tableLines } from '../table.ts';

const columns: readonly TableColumn<NodeAnswer<RotationAnswer>>[] = [
  { title: 'NODE', of: ({ pod }) => pod.node },
  { title: 'CHANGES AT', of: ({ answer }) => answer.changesAt },
  { title: 'KEY UNTIL THEN', of: ({ answer }) => answer.publicKey, flexible: true },
];

/** Lists the nodes that have announced a new key. */
export function rotationTable({ rows }: Answers<RotationAnswer>, room: Room): string[] {
  return rows.length === 0 ? [] : tableLines(columns, rows, room);
}

/** @throws SeineError `PROTOCOL` if the text is not an answer of `seinectl wireguard rotate` */
export function rotationOf(stdout: string): RotationAnswer {
  const answer = parsed(stdout);
  if (typeof answer === 'object' && answer !== null && 'publicKey' in answer && 'changesAt' in answer) {
    const { publicKey, changesAt } = answer;
    if (typeof publicKey === 'string' && typeof changesAt === 'string') return { publicKey, changesAt };
  }
  throw new SeineError('PROTOCOL', 'the answer is not that of `seinectl wireguard rotate`');
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
