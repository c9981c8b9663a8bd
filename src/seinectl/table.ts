import { safeLine } from './escape.ts';
import type { Paint, Tone } from './paint.ts';

export interface TableColumn<T> {
  readonly title: string;
  readonly of: (row: T) => string;
  readonly tone?: (row: T) => Tone | undefined;
  readonly align?: 'right';
  /** Printed only if there is room for everything. */
  readonly wide?: true;
  /** May be cut at the end of the terminal; the last column of a table should be. */
  readonly flexible?: true;
}

export interface Room {
  /** Maximum length of a line; `Infinity` for no limit. */
  readonly width: number;
  readonly paint: Paint;
}

const GAP = '  ';
/** Minimum width of a column that is cut. */
const LEAST = 12;

/** Lines of a table: titles, then a line for each row. Columns without any value are left out. */
export function tableLines<T>(columns: readonly TableColumn<T>[], rows: readonly T[], { width, paint }: Room): string[] {
  const cells = columns.map((column) => rows.map((row) => safeLine(column.of(row))));
  const used = columns.flatMap((column, at) => (cells[at]?.some((cell) => cell !== '') ? [{ column, cells: cells[at] ?? [] }] : []));
  const widths = widthsWithin(
    used.map(({ column, cells: texts }) => ({
      flexible: column.flexible === true,
      wanted: texts.reduce((most, text) => Math.max(most, text.length), column.title.length),
    })),
    width,
  );
  const line = (texts: readonly string[], painted: (text: string, at: number) => string): string =>
    texts
      .map((text, at) => {
        const to = widths[at] ?? 0;
        const padding = ' '.repeat(Math.max(0, to - text.length));
        const shown = painted(cut(text, to), at);
        if (used[at]?.column.align === 'right') return padding + shown;
        return at === texts.length - 1 ? shown : shown + padding;
      })
      .join(GAP)
      .trimEnd();
  return [
    line(
      used.map(({ column }) => column.title),
      (text) => (text === '' ? '' : paint('strong', text)),
    ),
    ...rows.map((row, index) =>
      line(
        used.map(({ cells: texts }) => texts[index] ?? ''),
        (text, at) => {
          const tone = used[at]?.column.tone?.(row);
          return tone && text !== '' ? paint(tone, text) : text;
        },
      ),
    ),
  ];
}

/** Reduces flexible columns until the line fits, the widest first. */
function widthsWithin(columns: readonly { readonly flexible: boolean; readonly wanted: number }[], width: number): number[] {
  const widths = columns.map(({ wanted }) => wanted);
  const gaps = GAP.length * Math.max(0, columns.length - 1);
  for (let excess = widths.reduce((sum, each) => sum + each, gaps) - width; excess > 0 && Number.isFinite(excess); ) {
    const widest = columns.reduce(
      (best, { flexible }, at) =>
        flexible && (widths[at] ?? 0) > LEAST && (best === -1 || (widths[at] ?? 0) > (widths[best] ?? 0)) ? at : best,
      -1,
    );
    if (widest === -1) break;
    widths[widest] = (widths[widest] ?? 0) - 1;
    excess--;
  }
  return widths;
}

function cut(text: string, width: number): string {
  return text.length <= width ? text : `${text.slice(0, Math.max(0, width - 1))}…`;
}
