import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { SeededRandom } from '../random.ts';
import { storedCorpus } from './corpus.ts';
import { Coverage } from './coverage.ts';
import { hunt } from './hunt.ts';
import { Fault, Reader } from './reader.ts';
import type { Target } from './target.ts';
import { targets } from './targets.ts';

describe.each(targets)('$name', (target) => {
  it('reads inputs again that once covered something new, and similar ones', { timeout: 120_000 }, async () => {
    const inputs = [...storedCorpus(target), ...target.seeds().map((input) => Buffer.from(input))];
    const reader = new Reader(target);
    for (const input of inputs) await reader.take(input);
    expect(reader.read).toBeGreaterThan(0);
    expect(reader.read).toBeLessThanOrEqual(reader.inputs);
  });
});

describe('a hunt', () => {
  const inputs = [Buffer.from('......')];
  let coverage: Coverage;
  beforeEach(() => {
    coverage = new Coverage((url) => url.endsWith('/corpora.test.ts'));
  });
  afterEach(() => coverage.stop());
  const options = (target: Target) => ({
    target,
    inputs,
    coverage,
    random: new SeededRandom(7),
    isOver: (done: number) => done > 50_000,
    progress: () => undefined,
  });

  it('finds by coverage what chance alone would not', { timeout: 120_000 }, async () => {
    const fault = await hunt(options({ ...nothing, read: nested })).catch((thrown: unknown) => thrown);
    expect(fault).toBeInstanceOf(Fault);
  });

  it('finds slow inputs', async () => {
    await expect(hunt(options({ ...nothing, read: busy }))).rejects.toThrow(/took \d+ ms, 4 times/);
  });
});

const nothing = { name: 'planted', what: '', seeds: () => [] };

/** Reached by one in 262,144 inputs of six bytes by chance. */
function nested([first = 0, second = 0, third = 0, fourth = 0, fifth = 0, sixth = 0]: Buffer): boolean {
  if (first >>> 5 !== 5) return false;
  if (second >>> 5 !== 2) return false;
  if (third >>> 5 !== 7) return false;
  if (fourth >>> 5 !== 0) return false;
  if (fifth >>> 5 !== 6) return false;
  if (sixth >>> 5 !== 3) return true;
  throw new TypeError('planted');
}

function busy(bytes: Buffer): boolean {
  const endMs = performance.now() + (bytes.length > 8 ? 200 : 0);
  while (performance.now() < endMs);
  return true;
}
