import { useState } from 'preact/hooks';

interface GridCell {
  /** Class of the cell: `allowed`, `denied`, `in-part` or `none`. */
  readonly look: string;
  /** What is shown: a shape, with a number. */
  readonly text: string;
  /** Outcome in words. */
  readonly outcome: string;
}

interface MatrixGridProps {
  readonly label: string;
  /** Names of rows and of columns. */
  readonly names: readonly string[];
  readonly cellOf: (from: string, to: string) => GridCell;
  readonly isChosen: (from: string, to: string) => boolean;
  readonly onSelect: (from: string, to: string) => void;
}

const moves: Readonly<Record<string, readonly [row: number, column: number]>> = {
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
};

/** Matrix from rows to columns. One cell is in the order of the keyboard; the arrow keys move to others. */
export function MatrixGrid({ label, names, cellOf, isChosen, onSelect }: MatrixGridProps) {
  const [focused, setFocused] = useState<readonly [row: number, column: number]>([0, 0]);
  const [row, column] = [Math.min(focused[0], names.length - 1), Math.min(focused[1], names.length - 1)];
  const move = (event: KeyboardEvent): void => {
    const step = moves[event.key];
    if (!step) return;
    event.preventDefault();
    const next = [row + step[0], column + step[1]].map((each) => Math.min(Math.max(each, 0), names.length - 1)) as [number, number];
    setFocused(next);
    document.getElementById(`cell-${next[0]}-${next[1]}`)?.focus();
  };
  return (
    <div class="scroll">
      <table class="matrix" role="grid" aria-label={label} onKeyDown={move}>
        <thead>
          <tr role="row">
            <th scope="col" role="columnheader">
              from ↓ to →
            </th>
            {names.map((name) => (
              <th key={name} scope="col" role="columnheader" title={name}>
                <span>{name}</span>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {names.map((from, at) => (
            <tr key={from} role="row">
              <th scope="row" role="rowheader" title={from}>
                {from}
              </th>
              {names.map((to, place) => {
                const { look, text, outcome } = cellOf(from, to);
                return (
                  <td key={to} role="gridcell" aria-selected={isChosen(from, to)}>
                    <button
                      type="button"
                      id={`cell-${at}-${place}`}
                      class={look}
                      tabindex={at === row && place === column ? 0 : -1}
                      aria-label={`${from} to ${to}: ${outcome}`}
                      onFocus={() => setFocused([at, place])}
                      onClick={() => onSelect(from, to)}
                    >
                      {text}
                    </button>
                  </td>
                );
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
