import type { MatrixCell, MatrixRow, ReachMatrix } from '../../answers/policy-matrix.ts';
import type { WhatIfMark } from '../../answers/what-if.ts';
import type { ComponentChildren } from 'preact';
import { MatrixGrid } from '../matrix-grid.tsx';
import { Badge } from '../parts.tsx';
import { confirmedText, count } from '../texts.ts';

type CellOutcome = 'allowed' | 'denied' | 'in part' | 'none';

const shapes: Readonly<Record<CellOutcome, string>> = { allowed: '✓', denied: '✕', 'in part': '◐', none: '' };
/** Effect of a proposal on a cell: a sign beside its shape. */
const effects = {
  breaks: { sign: '−', text: 'connections break' },
  opens: { sign: '+', text: 'connections open' },
  both: { sign: '±', text: 'connections break and open' },
} as const satisfies Record<WhatIfMark['effect'], object>;

/** Shapes of a matrix, and what is not shown. */
function Legend({ matrix: { namespace, names, more, confirmed, contradicted }, marks }: Pick<MatrixProps, 'matrix' | 'marks'>) {
  return (
    <p class="quiet">
      {(['allowed', 'denied', 'in part'] as const).map((outcome) => (
        <span key={outcome} class={`legend ${outcome.replace(' ', '-')}`}>
          <span aria-hidden="true">{shapes[outcome]}</span> {outcome}
        </span>
      ))}
      {(['breaks', 'opens'] as const).map((effect) =>
        marks ? (
          <span key={effect} class="legend">
            <span aria-hidden="true">{effects[effect].sign}</span> {effects[effect].text} by the proposal
          </span>
        ) : null,
      )}
      <span class="legend">empty</span> not computed: a pod to itself, or neither end in namespace {namespace}.{' '}
      {count(names.length, 'party').replace('partys', 'parties')}
      {more > 0 ? `, ${more} others are not shown` : ''}. {confirmedText(confirmed, contradicted)}
    </p>
  );
}

function outcomeOf(rows: readonly MatrixRow[] | undefined): CellOutcome {
  if (!rows || rows.length === 0) return 'none';
  const denied = rows.filter(({ verdict }) => verdict === 'deny').length;
  if (denied === 0) return 'allowed';
  return denied === rows.length ? 'denied' : 'in part';
}

interface MatrixProps {
  readonly matrix: ReachMatrix;
  readonly source: string;
  readonly destination: string;
  readonly onSelect: (from: string, to: string) => void;
  /** Effects of a proposal; absent without one. */
  readonly marks?: readonly WhatIfMark[] | undefined;
  /** What is known about a chosen cell besides its rules. */
  readonly children?: ComponentChildren;
}

/** Matrix of a namespace, and the cell that is chosen. */
export function MatrixAnswer({ children, ...props }: MatrixProps) {
  const { matrix, source, destination, marks } = props;
  return (
    <>
      <Legend matrix={matrix} marks={marks} />
      <Matrix {...props} />
      <Cell cell={matrix.cells.find(({ from, to }) => from === source && to === destination)}>{children}</Cell>
    </>
  );
}

function Matrix({ matrix: { namespace, names, cells }, source, destination, onSelect, marks = [] }: MatrixProps) {
  const byEnds = new Map(cells.map((cell) => [`${cell.from}\n${cell.to}`, cell]));
  const marked = new Map(marks.map(({ from, to, effect }) => [`${from}\n${to}`, effects[effect]]));
  return (
    <MatrixGrid
      label={`Connections of namespace ${namespace}, from rows to columns`}
      names={names}
      cellOf={(from, to) => {
        const outcome = outcomeOf(byEnds.get(`${from}\n${to}`)?.rows);
        const mark = marked.get(`${from}\n${to}`);
        const words = outcome === 'none' ? 'not computed' : outcome;
        return {
          look: `${outcome.replace(' ', '-')}${mark ? ' marked' : ''}`,
          text: `${shapes[outcome]}${mark?.sign ?? ''}`,
          outcome: mark ? `${words}, ${mark.text}` : words,
        };
      }}
      isChosen={(from, to) => from === source && to === destination}
      onSelect={onSelect}
    />
  );
}

function Cell({ cell, children }: { readonly cell: MatrixCell | undefined; readonly children: ComponentChildren }) {
  if (!cell) return <p class="quiet">Select a cell to see its ports and the rules that decide.</p>;
  return (
    <section class="card" aria-live="polite">
      <h2>
        {cell.from} → {cell.to}
      </h2>
      <table>
        <thead>
          <tr>
            <th scope="col">Verdict</th>
            <th scope="col">Ports</th>
            <th scope="col">Decided by</th>
          </tr>
        </thead>
        <tbody>
          {cell.rows.map((row) => (
            <tr key={`${row.family} ${row.ports} ${row.verdict}`}>
              <td>
                <Badge tone={row.verdict === 'allow' ? 'good' : 'bad'}>{row.verdict === 'allow' ? 'allowed' : 'denied'}</Badge>
              </td>
              <td>
                {row.ports}
                {row.family === undefined ? '' : row.family === 'ipv4' ? ' (IPv4)' : ' (IPv6)'}
              </td>
              <td>{row.by.length === 0 ? 'no policy: pods that no policy isolates admit everything' : row.by.join(', ')}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {children}
    </section>
  );
}
