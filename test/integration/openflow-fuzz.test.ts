import { expect, it } from 'vitest';
import { ofpParse } from '../fuzz/ofp-parse.ts';
import { mutated } from '../fuzz/openflow-messages.ts';
import { disagreement } from '../fuzz/openflow-oracle.ts';
import { survive } from '../fuzz/openflow-survival.ts';
import { SeededRandom } from '../fuzz/random.ts';

/** A sample of `npm run test:fuzz`, which does it a million times. */
const runs = 10_000;
const seed = Number(process.env['SEINE_FUZZ_SEED'] ?? Math.floor(Math.random() * 2 ** 32));

it('reads corrupt messages or rejects them, like ovs-ofctl', async ({ signal }) => {
  const random = new SeededRandom(seed);
  const messages = Array.from({ length: runs }, () => mutated(random));
  const verdicts = messages.map((message) => survive(message));
  const theirs = await ofpParse(messages, signal);
  const wrong = messages.flatMap((message, index) => {
    const [ours, other] = [verdicts[index], theirs[index]];
    const what = ours && other ? disagreement(ours, other) : 'no verdict';
    return what === undefined ? [] : [`${Buffer.from(message).toString('hex')}: ${what}`];
  });
  expect(wrong, `SEINE_FUZZ_SEED=${seed}`).toEqual([]);
  expect(verdicts.filter(({ kind }) => kind === 'read').length, `SEINE_FUZZ_SEED=${seed}`).toBeGreaterThan(runs / 5);
});
