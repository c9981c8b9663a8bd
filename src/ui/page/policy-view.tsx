import { useEffect, useState } from 'preact/hooks';
import type { FormNames } from '../answers/explained.ts';
import type { MatrixCell, MatrixRow, ReachMatrix } from '../answers/policy-matrix.ts';
import { parameters, show } from './location.ts';
import { MatrixGrid } from './matrix-grid.tsx';
import { AskedState, Badge, CommandLine, Field, Freshness, isOld } from './parts.tsx';
import { useAnswer } from './questions.ts';
import { count } from './texts.ts';

type CellOutcome = 'allowed' | 'denied' | 'in part' | 'none';

const shapes: Readonly<Record<CellOutcome, string>> = { allowed: '✓', denied: '✕', 'in part': '◐', none: '' };

/** Connections that policies allow, between the workloads of a namespace and others. */
export function PolicyView() {
  const { namespace = '', source = '', destination = '' } = parameters.value;
  const asked = useAnswer<ReachMatrix>(namespace === '' ? undefined : `policy?${new URLSearchParams({ namespace })}`);
  const { answer } = asked;
  return (
    <section aria-labelledby="policy-title">
      <div class="title">
        <h1 id="policy-title">Policy</h1>
        {answer ? <Freshness asked={asked} /> : null}
      </div>
      <p>What the policies in the API server allow: from the row to the column. A cell shows the rules that decide.</p>
      <NamespaceForm namespace={namespace} />
      <AskedState asked={asked} what={`the policies of namespace ${namespace}`} />
      {answer ? (
        <div class={isOld(asked) ? 'old' : ''}>
          <MatrixAnswer
            matrix={answer}
            source={source}
            destination={destination}
            onSelect={(from, to) => show({ view: 'policy', namespace, source: from, destination: to })}
          />
        </div>
      ) : null}
      <CommandLine words={['seinectl', 'policy', 'reach', '--from', `${namespace || 'NAMESPACE'}/*`]} answer={answer} name="policy" />
    </section>
  );
}

function NamespaceForm({ namespace }: { readonly namespace: string }) {
  const names = useAnswer<FormNames>('names?kind=namespace').answer?.names;
  const [value, setValue] = useState(namespace);
  useEffect(() => setValue(namespace), [namespace]);
  return (
    <form
      class="form"
      onSubmit={(event) => {
        event.preventDefault();
        show({ view: 'policy', namespace: value.trim() });
      }}
    >
      <Field id="namespace" label="Namespace" value={value} onInput={setValue} {...(names && { names })} />
      <button type="submit" class="primary" disabled={value.trim() === ''}>
        Show
      </button>
    </form>
  );
}

/** Shapes of a matrix, and what is not shown. */
function Legend({ matrix: { names, more, confirmed, contradicted } }: { readonly matrix: ReachMatrix }) {
  return (
    <p class="quiet">
      {(['allowed', 'denied', 'in part'] as const).map((outcome) => (
        <span key={outcome} class={`legend ${outcome.replace(' ', '-')}`}>
          <span aria-hidden="true">{shapes[outcome]}</span> {outcome}
        </span>
      ))}
      {count(names.length, 'party').replace('partys', 'parties')}
      {more > 0 ? `, ${more} others are not shown` : ''}. {count(confirmed, 'verdict')} confirmed by the reference
      {contradicted > 0 ? `, ${contradicted} contradicted: report this` : ''}.
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
}

/** Matrix of a namespace, and the cell that is chosen. */
export function MatrixAnswer({ matrix, source, destination, onSelect }: MatrixProps) {
  return (
    <>
      <Legend matrix={matrix} />
      <Matrix matrix={matrix} source={source} destination={destination} onSelect={onSelect} />
      <Cell cell={matrix.cells.find(({ from, to }) => from === source && to === destination)} />
    </>
  );
}

function Matrix({ matrix: { namespace, names, cells }, source, destination, onSelect }: MatrixProps) {
  const byEnds = new Map(cells.map((cell) => [`${cell.from}\n${cell.to}`, cell]));
  return (
    <MatrixGrid
      label={`Connections of namespace ${namespace}, from rows to columns`}
      names={names}
      cellOf={(from, to) => {
        const outcome = outcomeOf(byEnds.get(`${from}\n${to}`)?.rows);
        return { look: outcome.replace(' ', '-'), text: shapes[outcome], outcome: outcome === 'none' ? 'not computed' : outcome };
      }}
      isChosen={(from, to) => from === source && to === destination}
      onSelect={onSelect}
    />
  );
}

function Cell({ cell }: { readonly cell: MatrixCell | undefined }) {
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
    </section>
  );
}
