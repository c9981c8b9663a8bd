import type { WhatIfRow, WhatIfView } from '../../answers/simulator.ts';
import { Badge } from '../parts.tsx';
import { confirmedText } from '../texts.ts';

const effectTones = { breaks: 'bad', opens: 'good', moves: 'warn' } as const satisfies Record<WhatIfRow['effect'], string>;

/** Connections that a proposal breaks, opens or moves. */
export function WhatIfTable({ view: { rows, more, conflicts, notConsidered, confirmed, contradicted } }: { readonly view: WhatIfView }) {
  const isUseKnown = rows.some(({ used }) => used !== undefined);
  return (
    <div aria-live="polite">
      {rows.length === 0 ? <p>No connection breaks or opens.</p> : null}
      {rows.length > 0 ? (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: an area that scrolls has to be reachable with the keyboard (WCAG 2.1.1)
        <div class="scroll" tabindex={0} role="region" aria-label="Connections that change">
          <table>
            <thead>
              <tr>
                {['Effect', 'From', 'To', 'Ports', 'Today', 'Then', ...(isUseKnown ? ['Used'] : [])].map((title) => (
                  <th key={title} scope="col">
                    {title}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {rows.map((row) => (
                <tr key={`${row.effect} ${row.from} ${row.to} ${row.ports}`}>
                  <td>
                    <Badge tone={effectTones[row.effect]}>{row.effect}</Badge>
                  </td>
                  <td>{row.from}</td>
                  <td>{row.to}</td>
                  <td>{row.ports}</td>
                  <td>{row.before}</td>
                  <td>{row.after}</td>
                  {isUseKnown ? <td>{row.used ?? 'not known'}</td> : null}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      ) : null}
      {more > 0 ? <p class="quiet">{more.toLocaleString('en')} more rows are not shown.</p> : null}
      {conflicts.map((text) => (
        <p key={text}>
          <Badge tone="bad">conflict</Badge> {text}
        </p>
      ))}
      {notConsidered.map((text) => (
        <p key={text} class="quiet">
          {text}
        </p>
      ))}
      <p class="quiet">
        {confirmedText(confirmed, contradicted)}
      </p>
    </div>
  );
}
