import { parseArgs } from 'node:util';
import { runScript, wholeNumber } from '../support/script.ts';
import { ofpParse } from './ofp-parse.ts';
import { corpus, mutated } from './openflow-messages.ts';
import { disagreement } from './openflow-oracle.ts';
import { survive, type Verdict } from './openflow-survival.ts';
import { SeededRandom } from './random.ts';

const usage = `Usage: npm run test:fuzz -- [--seed N] [--runs N] [--judge N]

Decodes OpenFlow messages that were mutated at random: each must be decoded, or rejected with a PROTOCOL error, within 50 ms. The seed is printed; the same seed gives the same messages.

  --seed N    seed (default: random)
  --runs N    number of messages (default 1,000,000)
  --judge N   number of messages that ovs-ofctl decodes too, for comparison (default: all)
`;

const batch = 5_000;
const signal = new AbortController().signal;

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: { seed: { type: 'string' }, runs: { type: 'string' }, judge: { type: 'string' }, help: { type: 'boolean' } },
  });
  if (values.help) {
    process.stdout.write(usage);
    return;
  }
  const seed = values.seed === undefined ? Math.floor(Math.random() * 2 ** 32) : wholeNumber('seed', values.seed, 0);
  const runs = wholeNumber('runs', values.runs ?? '1000000');
  const judged = Math.min(runs, wholeNumber('judge', values.judge ?? String(runs), 0));
  print(`OpenFlow: ${runs} messages, ${judged} of them judged by ovs-ofctl; --seed ${seed}`);
  truncateAll({ seed });
  const random = new SeededRandom(seed);
  const count = { read: 0, refused: 0 };
  const startMs = performance.now();
  for (let done = 0; done < runs; done += batch) {
    const messages = Array.from({ length: Math.min(batch, runs - done) }, () => mutated(random));
    const verdicts = messages.map((message, index) => decodeOrReport(message, { seed, index: done + index }));
    for (const { kind } of verdicts) count[kind]++;
    if (done < judged) await judge(messages, verdicts, { seed, first: done });
    if ((done / batch) % 20 === 19) print(`  ${done + batch} in ${Math.round((performance.now() - startMs) / 1000)} s`);
  }
  print(`${count.read} were read, ${count.refused} refused, ${Math.round((performance.now() - startMs) / 1000)} s`);
}

/** Every message of the corpus, cut off at every place. */
function truncateAll({ seed }: { readonly seed: number }): void {
  let done = 0;
  for (const message of corpus)
    for (let length = 8; length < message.length; length++) {
      const cut = message.slice(0, length);
      new DataView(cut.buffer).setUint16(2, length);
      decodeOrReport(cut, { seed, index: done++ });
    }
  print(`  ${done} truncations`);
}

function decodeOrReport(message: Uint8Array, at: { readonly seed: number; readonly index: number }): Verdict {
  try {
    return survive(message);
  } catch (thrown) {
    print(`seed ${at.seed}, message ${at.index}: ${Buffer.from(message).toString('hex')}`);
    throw thrown;
  }
}

async function judge(
  messages: readonly Uint8Array[],
  verdicts: readonly Verdict[],
  at: { readonly seed: number; readonly first: number },
): Promise<void> {
  const theirs = await ofpParse(messages, signal);
  for (const [index, message] of messages.entries()) {
    const [ours, other] = [verdicts[index], theirs[index]];
    const wrong = ours && other && disagreement(ours, other);
    if (wrong === undefined) continue;
    print(`seed ${at.seed}, message ${at.first + index}: ${Buffer.from(message).toString('hex')}\n  ${wrong}`);
    process.exitCode = 1;
  }
}

function print(text: string): void {
  process.stderr.write(`${text}\n`);
}

await runScript(main);
