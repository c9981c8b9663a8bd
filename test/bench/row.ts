/** One line of the benchmark. Values are medians; less is better for times, more for rates. */
export interface Row {
  readonly name: string;
  readonly unit: string;
  readonly ours: number;
  /** Null if no peer does the same. */
  readonly peer: number | null;
  readonly peerName: string | null;
  /** ours / peer */
  readonly ratio: number | null;
  readonly runs: number;
}

/** Measurement of a benchmark, before rounding. */
export interface Measured {
  readonly name: string;
  readonly unit: string;
  readonly ours: readonly number[];
  readonly peer?: { readonly name: string; readonly values: readonly number[] };
}

export function rowOf({ name, unit, ours, peer }: Measured): Row {
  const own = median(ours);
  const theirs = peer === undefined ? null : median(peer.values);
  return {
    name,
    unit,
    ours: rounded(own),
    peer: theirs === null ? null : rounded(theirs),
    peerName: peer?.name ?? null,
    ratio: theirs === null || theirs === 0 ? null : rounded(own / theirs),
    runs: ours.length,
  };
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  const upper = sorted[middle];
  if (upper === undefined) throw new Error('the median of nothing');
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? upper) + upper) / 2;
}

/** Three significant digits. */
function rounded(value: number): number {
  return Math.abs(value) >= 100 ? Math.round(value) : Number(value.toPrecision(3));
}

/** Table for a terminal. */
export function tableOf(rows: readonly Row[]): string {
  const head = ['name', 'unit', 'ours', 'peer', 'ratio', 'runs', 'peer is'];
  const cells = rows.map(({ name, unit, ours, peer, peerName, ratio, runs }) =>
    [name, unit, ours, peer ?? '', ratio ?? '', runs, peerName ?? ''].map(String),
  );
  const widths = head.map((title, column) => Math.max(title.length, ...cells.map((line) => line[column]?.length ?? 0)));
  const isNumber = (column: number) => column >= 2 && column <= 5;
  const lineOf = (line: readonly string[]) =>
    line.map((cell, column) => (isNumber(column) ? cell.padStart(widths[column] ?? 0) : cell.padEnd(widths[column] ?? 0))).join('  ');
  return [head, ...cells].map((line) => lineOf(line).trimEnd()).join('\n');
}
