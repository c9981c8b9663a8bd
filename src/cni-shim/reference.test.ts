import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CniBench } from '../../test/support/cni-bench.ts';

interface ReferenceCall {
  readonly case: string;
  readonly env: Readonly<Record<string, string>>;
  readonly stdin: string;
  readonly exit: number;
  readonly code: number | null;
  /** Result of an ADD that succeeded. */
  readonly result?: object;
}

/** Calls that Seine answers differently, with the reason. */
interface Difference {
  readonly cases: string;
  readonly ours: number;
  readonly why: string;
}

const text = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');

/** Recorded answers of the reference plugin `ptp` to valid and invalid calls. It returns 999 for everything that fails at run time. */
const calls = text('test/fixtures/cni/reference-calls.jsonl')
  .trim()
  .split('\n')
  .map((line) => JSON.parse(line) as ReferenceCall);
const differences = JSON.parse(text('test/fixtures/cni/reference-differences.json')) as readonly Difference[];

const differenceOf = (call: ReferenceCall) => differences.find(({ cases }) => new RegExp(cases).test(call.case));

/** Members and types of a value, without those that depend on the run; `routes` are Seine's and not in the recorded configuration. */
function shapeOf(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(shapeOf);
  if (typeof value !== 'object' || value === null) return typeof value;
  const members = Object.entries(value).filter(([key]) => key !== 'routes' && key !== 'dns');
  return Object.fromEntries(members.map(([key, inner]) => [key, key === 'cniVersion' || key === 'version' ? inner : shapeOf(inner)]));
}

describe('calls to the reference plugin', () => {
  const bench = new CniBench(['10.1.0.0/22']);
  beforeAll(async () => {
    bench.network.namespaces.add('/var/run/netns/orc-c1');
    await bench.start();
  });
  afterAll(() => bench.remove());

  it.each(calls)('$case', async (call) => {
    if (call.case !== 'ADD twice') bench.clear();
    const run = await bench.run(call.env, bench.aim(call.stdin));
    const code = run.exit === 0 ? 0 : (JSON.parse(run.stdout) as { code: number }).code;
    const { ours } = differenceOf(call) ?? {};
    expect(code, run.stdout).toBe(ours ?? call.code ?? 0);
    if (code === 0 && call.result) expect(shapeOf(JSON.parse(run.stdout))).toEqual(shapeOf(call.result));
  });
});

describe('the differences', () => {
  it.each(differences)('$cases: $why', ({ cases, ours }) => {
    const concerned = calls.filter((call) => differenceOf(call)?.cases === cases);
    expect(concerned.length).toBeGreaterThan(0);
    for (const call of concerned) expect(ours, `${call.case} has the same answer`).not.toBe(call.code ?? 0);
  });

  it('are those described in docs/cni.md', () => {
    const rows = differences.map(({ ours, why, ...difference }) => {
      const concerned = calls.filter((call) => differenceOf(call)?.cases === difference.cases);
      const theirs = [...new Set(concerned.map(({ code }) => code ?? 0))].join(', ');
      const names = concerned.map((call) => call.case.replaceAll('|', '\\|'));
      const said = names.length > 2 ? `${names[0]}, and ${names.length - 1} more` : names.join('; ');
      return `| ${said} | ${theirs} | ${ours} | ${why} |`;
    });
    const documented = text('docs/cni.md');
    for (const row of rows) expect(documented).toContain(row);
  });
});
