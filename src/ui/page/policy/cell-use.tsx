import type { CellUse, RowUse } from '../../answers/cell-use.ts';
import { AskedState, Badge, CommandLine, NodeNames } from '../parts.tsx';
import { useAnswer } from '../questions.ts';
import { count, duration } from '../texts.ts';

interface CellUseProps {
  readonly namespace: string;
  readonly source: string;
  readonly destination: string;
}

/** How much the connections of a cell were used, from the flow logs of its pods' nodes. */
export function CellUseCard({ source, destination }: CellUseProps) {
  const asked = useAnswer<CellUse>(`used?${new URLSearchParams({ source, destination })}`);
  const { answer } = asked;
  return (
    <section aria-label="Use of these connections">
      <h3 class="day">Used</h3>
      <AskedState asked={asked} what="how much these connections were used" />
      {answer ? <Use use={answer} /> : null}
      <CommandLine words={commandOf({ source, destination })} answer={answer} name="used" />
    </section>
  );
}

/** Ends that are not pods have no filter: `node n1`, `outside 10.0.0.0/8`. */
function commandOf({ source, destination }: Pick<CellUseProps, 'source' | 'destination'>): string[] {
  const filter = (name: string, end: string): string[] => (end.includes('/') && !end.includes(' ') ? [name, end] : []);
  return ['seinectl', 'flows', ...filter('--from-pod', source), ...filter('--to-pod', destination), '--since', '24h'];
}

function Use({ use: { rows, seconds, logged, completeFrom, lost, unknown, notAsked } }: { readonly use: CellUse }) {
  return (
    <>
      {logged === 0 ? (
        <p>
          <Badge tone="quiet">not known</Badge> No node of these pods has a flow log that answers.
        </p>
      ) : (
        <ul class="lines">
          {rows.map((row) => (
            <li key={`${row.family} ${row.ports} ${row.verdict}`}>{useText(row)}</li>
          ))}
        </ul>
      )}
      <ul class="quiet">
        {logged > 0 ? (
          <li>
            From the flow logs of {count(logged, 'node')}, the last {duration(seconds)}
            {completeFrom === null ? '' : `, complete since ${completeFrom.slice(0, 10)} ${completeFrom.slice(11, 19)} UTC`}
            {lost > 0 ? `; ${count(lost, 'connection')} of these nodes were not recorded` : ''}.
          </li>
        ) : null}
        {unknown.map(({ text, nodes, count: total }) => (
          <li key={text}>
            {text} <NodeNames nodes={nodes} total={total} />
          </li>
        ))}
        {notAsked > 0 ? <li>{count(notAsked, 'further node')} of these pods were not asked.</li> : null}
      </ul>
    </>
  );
}

function useText({ ports, family, verdict, recorded, last }: RowUse): string {
  const of = family === undefined ? ports : `${ports} (${family === 'ipv4' ? 'IPv4' : 'IPv6'})`;
  const noun = verdict === 'allow' ? 'connection' : 'denied attempt';
  const number = recorded === null ? 'not known' : recorded === 0 ? `no ${noun}` : count(recorded, noun);
  return `${of}: ${number}${last ? `, last at ${last.time.slice(0, 10)} ${last.time.slice(11, 19)} UTC (${last.from} → ${last.to})` : ''}`;
}
