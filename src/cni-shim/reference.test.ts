import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CniBench } from '../../test/support/cni-bench.ts';

interface ReferenceCall {
  readonly case: string;
  readonly env: Readonly<Record<string, string>>;
  readonly stdin: string;
  readonly exit: number;
  readonly code: number | null;
}

/** What the reference plugin `ptp` answered to good and bad calls, recorded. */
const calls = readFileSync(new URL('../../test/fixtures/cni/reference-calls.jsonl', import.meta.url), 'utf8')
  .trim()
  .split('\n')
  .map((line) => JSON.parse(line) as ReferenceCall);

/**
 * Where we answer otherwise, and why. The reference says 999 for everything that fails at run time, where the specification has
 * a number.
 */
const differences: readonly (readonly [cases: RegExp, code: number, why: string])[] = [
  [/without (CNI_COMMAND|any CNI var)/, 4, 'the reference prints its version for humans and succeeds; the specification asks for code 4'],
  [/^(ADD|DEL) cniVersion='1.1.0'/, 0, 'we speak 1.1.0'],
  [/^CHECK cniVersion='banana'/, 1, 'a version we do not speak, whatever it looks like'],
  [/^ADD prevResult garbage/, 7, 'we pass a prevResult on, so it must be one'],
  [/^(ADD netns '[r/]|CHECK netns 'r)/, 4, 'CNI_NETNS is at fault, and the specification has a number for that'],
  [/^ADD ifname 'lo'/, 4, 'CNI_IFNAME is at fault: it exists'],
  [/^ADD CNI_ARGS (malformed|unknown)/, 4, 'CNI_ARGS is at fault'],
  [/^CHECK CNI_ARGS (malformed|unknown)/, 4, 'CNI_ARGS is at fault'],
  [/^DEL CNI_ARGS/, 0, 'DEL does not need them, so they cannot fail it'],
  [/^DEL (ifname 'lo'|netns)/, 0, 'nothing of ours is there, and DEL does not use the namespace'],
  [/^(ADD|DEL) unknown ipam type/, 7, 'the configuration is at fault'],
  [/^(ADD|DEL) no ipam/, 0, 'the agent has its own'],
  [/^CHECK (cniVersion='(0.4.0|1.0.0|1.1.0)'|containerid '(a{5}|0|A)|ifname 'lo'|netns '\/)/, 7, 'no prevResult, which CHECK must have'],
  [/^CHECK (CNI_ARGS IgnoreUnknown|unknown ipam|no ipam|extra|without prev|prevResult)/, 7, 'no prevResult, or none that can be read'],
  [/^ADD twice/, 104, 'a code of its own for it'],
  [/^STATUS/, 0, 'newer than the reference'],
  [/^GC/, 0, 'newer than the reference'],
];

describe('calls the reference plugin was given', () => {
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
    const [, ours] = differences.find(([cases]) => cases.test(call.case)) ?? [];
    expect(code, run.stdout).toBe(ours ?? call.code ?? 0);
    expect(code === 0 || ours !== call.code, 'a difference that is none').toBe(true);
  });
});
