import { parseArgs } from 'node:util';
import { runScript, wholeNumber } from '../support/script.ts';
import { conversation, sound } from './ovsdb-conversation.ts';
import { SeededRandom } from './random.ts';

const usage = `Usage: npm run test:fuzz:ovsdb -- [--seed N] [--runs N]

Reads OVSDB messages that were harmed at random: each is read or refused, with a PROTOCOL error, within 50 ms of processor time.
The seed is printed; the same seed gives the same messages.

  --seed N    chance unless given
  --runs N    how many messages; 1,000,000 unless given
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
  const harmed = random.pick(mutations)(Buffer.from(random.pick(sound)), random);
  const stream = Buffer.concat([sound.at(-5) ?? harmed, harmed, random.pick(sound)]);
  try {
    return conversation(cut(stream, random));
  } catch (thrown) {
    say(`harmed: ${JSON.stringify(harmed.toString('latin1'))}`);
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
  say(`OVSDB: ${runs} messages; --seed ${seed}`);
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
  say(`${count.read} were read, ${count.refused} refused; the slowest took ${slowest.toFixed(1)} ms`);
}

function say(text: string): void {
  process.stderr.write(`${text}\n`);
}

await runScript(async () => main());
