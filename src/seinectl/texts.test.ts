import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Entry } from '../api/entry.ts';
import { cookieOf, learnedCookie, ownerOf } from '../dataplane/pipeline/cookie.ts';
import { annotateLine } from './annotate.ts';
import { diffLines } from './diff-lines.ts';
import { safeLine, safeText } from './escape.ts';
import { coloured, plain } from './paint.ts';
import { type TableColumn, tableLines } from './table.ts';
import { bitsText, count, duration, failureText, ownersText, shortOwner } from './words.ts';

describe('printed text', () => {
  it('cannot move the cursor, colour, or reverse the following text', () => {
    expect(safeLine('a\u001b[31mb\nc\u009bd\u202ee\u007f')).toBe('a\\u001b[31mb\\u000ac\\u009bd\\u202ee\\u007f');
    expect(safeText('a\tb\nc\rd')).toBe('a\tb\nc\\u000dd');
  });

  it('has no control character, for any input', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
        expect(safeLine(text)).not.toMatch(/[\u0000-\u001f\u007f-\u009f\u202a-\u202e]/);
      }),
    );
  });
});

it.each([
  [800, '800 bit'],
  [1_000, '1 kbit'],
  [1_500_000, '1.5 Mbit'],
  [10_000_000_000, '10 Gbit'],
  [4_294_967_295_000, '4.295 Tbit'],
])('abbreviates %i bits', (bits, text) => {
  expect(bitsText(bits)).toBe(text);
});

describe('a table', () => {
  interface Row {
    readonly name: string;
    readonly n: string;
    readonly text: string;
  }
  const columns: readonly TableColumn<Row>[] = [
    { title: 'NAME', of: ({ name }) => name, tone: () => 'good' },
    { title: 'N', of: ({ n }) => n, align: 'right' },
    { title: 'TEXT', of: ({ text }) => text, flexible: true },
  ];
  const rows = [
    { name: 'a', n: '1', text: 'short' },
    { name: 'longer', n: '22', text: 'a text that goes on and on and on and on' },
  ];

  it('lines up columns', () => {
    expect(tableLines(columns, rows, { width: Number.POSITIVE_INFINITY, paint: plain })).toEqual([
      'NAME     N  TEXT',
      'a        1  short',
      'longer  22  a text that goes on and on and on and on',
    ]);
  });

  it('is cut in flexible columns to fit the screen', () => {
    const lines = tableLines(columns, rows, { width: 30, paint: plain });
    expect(lines.map((line) => line.length).reduce((most, each) => Math.max(most, each))).toBe(30);
    expect(lines.at(-1)).toBe('longer  22  a text that goes …');
  });

  it('is as wide with colours as without', () => {
    // biome-ignore lint/suspicious/noControlCharactersInRegex: colours are written so
    const bare = (line: string) => line.replace(/\u001b\[\d+m/g, '');
    const room = { width: 40, paint: coloured };
    expect(tableLines(columns, rows, room).map(bare)).toEqual(tableLines(columns, rows, { width: 40, paint: plain }));
    expect(tableLines(columns, rows, room).join('')).toContain('\u001b[32ma\u001b[0m');
  });

  it('omits an empty column', () => {
    expect(tableLines(columns, [{ name: 'a', n: '', text: '' }], { width: 80, paint: plain })).toEqual(['NAME', 'a']);
  });
});

describe('words', () => {
  it('prints time in two units', () => {
    expect([0, 36, 600, 725, 3_600, 90_061].map(duration)).toEqual(['0s', '36s', '10m', '12m 5s', '1h', '1d 1h']);
  });

  it('counts', () => expect([count(1, 'node'), count(2, 'entry', 'entries')]).toEqual(['1 node', '2 entries']));

  it('truncates container IDs in owners, and names few of many', () => {
    expect(shortOwner(`pod/default/web-0/eth0@${'0123456789ab'.repeat(5)}cdef`)).toBe('pod/default/web-0/eth0@0123456789ab');
    expect(ownersText(['a', 'b', 'c'])).toBe('a, b and 1 more');
  });

  it('shows a failure without its code', () => expect(failureText({ message: '[REFUSED] no', ageSeconds: 61 })).toBe('no (1m 1s ago)'));
});

describe('annotate', () => {
  const owner = ownerOf('pod', 'default', 'web-0', 'eth0@abc');
  const cookie = `0x${cookieOf(owner).toString(16)}`;
  const owners = new Map([[cookieOf(owner), owner]]);
  const annotated = (line: string) => annotateLine(line, owners, plain);

  it.each([
    ` cookie=${cookie}, duration=2.1s, table=0, n_packets=0, n_bytes=0, priority=200,in_port=32784 actions=drop`,
    ` cookie=${cookie}, duration=2.1s, table=classify, n_packets=0, n_bytes=0, priority=200,in_port="web0-1" actions=drop`,
    ` cookie=${cookie}, table=classify, priority=200,in_port="web0-1" actions=drop`,
    `cookie=${cookie.toUpperCase().replace('0X', '0x')}, actions=drop`,
  ])('names the owner in %s', (line) => {
    expect(annotated(line)).toEqual({ line: `${line} # ${owner}`, cookie: 'known' });
  });

  it('prints the known parts of cookies without an owner', () => {
    const other = cookieOf(ownerOf('service', 'x'));
    expect(annotated(` cookie=0x${other.toString(16)}, table=26, actions=drop`)).toMatchObject({
      line: expect.stringContaining('# unknown: a service that is no longer desired on this node'),
      cookie: 'unknown',
    });
    expect(annotated(' cookie=0x0, table=0, actions=NORMAL').line).toContain('# unknown: no cookie of Seine');
    expect(annotated(` cookie=0x${learnedCookie.toString(16)}, table=120, actions=drop`).cookie).toBe('learned');
  });

  it('passes other lines unchanged, without control characters', () => {
    expect(annotated('NXST_FLOW reply (xid=0x4):')).toEqual({ line: 'NXST_FLOW reply (xid=0x4):', cookie: 'none' });
    expect(annotated('')).toEqual({ line: '', cookie: 'none' });
    expect(annotated('\u001b[2Jcookie=junk').line).toBe('\\u001b[2Jcookie=junk');
    expect(annotated(`cookie=0x${'f'.repeat(40)}`).cookie).toBe('none');
  });
});

describe('diff', () => {
  const entry = (changes: Partial<Entry>): Entry => ({
    kind: 'flow',
    name: 'x',
    state: 'missing',
    owners: ['node'],
    wanted: 'table=a',
    actual: null,
    ...changes,
  });

  it('has a sign for each kind of difference, and its owner', () => {
    const entries = [
      entry({}),
      entry({ state: 'extra', wanted: null, actual: 'table=b', owners: [] }),
      entry({ state: 'changed', actual: 'table=c', error: { message: '[REFUSED] no', ageSeconds: 3 } }),
      entry({ state: 'missing', kind: 'firewall', wanted: 'table inet seine {\nchain a {\n}\n}' }),
    ];
    expect(diffLines(entries, plain)).toEqual([
      '+ table=a # node',
      '- table=b # unexpected',
      '~ table=a # node',
      '  now: table=c',
      '  # no (3s ago)',
      '+ table inet seine { … (4 lines) # node',
    ]);
  });

  it('prints nothing for equal entries', () => {
    expect(diffLines([entry({ state: 'ok' }), entry({ state: 'learned' })], plain)).toEqual([]);
  });
});
