import { parseArgs } from 'node:util';
import { runScript, wholeNumber } from '../support/script.ts';
import { conversation, sound } from './ovsdb-conversation.ts';
import { SeededRandom } from './random.ts';

const usage = `Usage: npm run test:fuzz:ovsdb -- [--seed N] [--runs N]

Decodes randomly mutated OVSDB messages: each must be decoded, or rejected with a PROTOCOL error, within 50 ms of CPU time.
The seed is printed; the same seed gives the same messages.

  --seed N    seed (default: random)
  --runs N    number of messages (default 1,000,000)
`;

const mostMs = 50;
/** Bytes with a meaning in JSON, and some without. */
const tokens = [
  '{',
  '}',
  '[',
  ']',
  '"',
  '\\',
  ',',
  ':',
  '\0',
  '\\u0000',
  '\\ud800',
  '-',
  '1e999',
  '9'.repeat(40),
  'null',
  '["set",[',
  '["map",[[',
];

type Mutation = (bytes: Buffer, random: SeededRandom) => Buffer;

const mutations: readonly Mutation[] = [
  (bytes, random) => bytes.subarray(0, random.below(bytes.length)),
  (bytes, random) => {
    const changed = Buffer.from(bytes);
    for (let left = 1 + random.below(4); left > 0; left -= 1) changed[random.below(changed.length)] = random.below(256);
    return changed;
  },
  (bytes, random) => spliced(bytes, random.below(bytes.length), 0, Buffer.from(random.pick(tokens))),
  (bytes, random) => spliced(bytes, random.below(bytes.length), 1 + random.below(20), Buffer.alloc(0)),
  (bytes, random) => spliced(bytes, random.below(bytes.length), 0, Buffer.from(random.pick(tokens).repeat(random.below(500)))),
  (bytes, random) => spliced(bytes, random.below(bytes.length), 0, Buffer.from(random.pick(sound))),
];

function spliced(bytes: Buffer, at: number, removed: number, inserted: Uint8Array): Buffer {
  return Buffer.concat([bytes.subarray(0, at), inserted, bytes.subarray(at + removed)]);
}

/** A conversation of a valid message, a mutated one, and a valid one, in chunks of any size. */
function survive(random: SeededRandom): 'read' | 'refused' {
  const mutated = random.pick(mutations)(Buffer.from(random.pick(sound)), random);
  const stream = Buffer.concat([sound.at(-5) ?? mutated, mutated, random.pick(sound)]);
  try {
    return conversation(cut(stream, random));
  } catch (thrown) {
    print(`mutated: ${JSON.stringify(mutated.toString('latin1'))}`);
    throw thrown;
  }
}

function* cut(stream: Buffer, random: SeededRandom): Generator<Buffer> {
  for (let at = 0; at < stream.length; ) {
    const size = 1 + random.below(stream.length);
    yield stream.subarray(at, at + size);
    at += size;
  }
}

function main(): void {
  const { values } = parseArgs({ options: { seed: { type: 'string' }, runs: { type: 'string' }, help: { type: 'boolean' } } });
  if (values.help) return void process.stdout.write(usage);
  const seed = values.seed === undefined ? Math.floor(Math.random() * 2 ** 32) : wholeNumber('seed', values.seed, 0);
  const runs = wholeNumber('runs', values.runs ?? '1000000');
  print(`OVSDB: ${runs} messages; --seed ${seed}`);
  const random = new SeededRandom(seed);
  const count = { read: 0, refused: 0 };
  let slowest = 0;
  for (let done = 0; done < runs; done += 1) {
    const before = process.cpuUsage();
    count[survive(random)] += 1;
    const { user, system } = process.cpuUsage(before);
    slowest = Math.max(slowest, (user + system) / 1_000);
    // A garbage collection on its own threads counts as well; one message never takes that long.
    if (slowest > mostMs) throw new Error(`message ${done} took ${slowest} ms`);
  }
  print(`${count.read} were read, ${count.refused} refused; the slowest took ${slowest.toFixed(1)} ms`);
}

function print(text: string): void {
  process.stderr.write(`${text}\n`);
}

await runScript(async () => main());
