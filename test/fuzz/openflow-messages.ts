import { readFileSync } from 'node:fs';
import type { SeededRandom } from './random.ts';

const files = [
  'openflow-corpus.jsonl',
  'openflow13-corpus.jsonl',
  'openflow-replies.jsonl',
  'openflow-vectors.jsonl',
  'openflow-session.jsonl',
] as const;

/** Messages in all forms and both versions: those that the tools sent, those of a switch of version 3.1, and our own vectors. */
export const corpus: readonly Uint8Array[] = distinct(
  files.flatMap((file) =>
    readFileSync(new URL(`../fixtures/${file}`, import.meta.url), 'utf8')
      .trim()
      .split('\n')
      .map((line) => (JSON.parse(line) as { readonly hex: string }).hex),
  ),
);

function distinct(hexes: readonly string[]): Uint8Array[] {
  return [...new Set(hexes)].map((hex) => Uint8Array.from(Buffer.from(hex, 'hex'))).filter(({ length }) => length >= 8);
}

/** Differences and values for wrong lengths and counts. */
const wrongs = [0, 1, 3, 4, 7, 8, 0x7fff, 0xfff8, 0xffff] as const;

type Mutation = (message: Uint8Array<ArrayBuffer>, random: SeededRandom) => Uint8Array<ArrayBuffer>;

/** One row for each kind of mutation. The header of the result is corrected afterwards: framing is tested separately. */
const mutations: readonly Mutation[] = [
  function truncated(message, random) {
    return message.slice(0, 8 + random.below(message.length - 7));
  },
  function extended(message, random) {
    const longer = new Uint8Array(Math.min(0xffff, message.length + 1 + random.below(64)));
    longer.set(message);
    for (let at = message.length; at < longer.length; at++) longer[at] = random.below(3) === 0 ? random.below(256) : 0;
    return longer;
  },
  function flipped(message, random) {
    for (let flips = 1 + random.below(6); flips > 0; flips--) {
      const at = random.below(message.length);
      message[at] = (message[at] ?? 0) ^ (1 << random.below(8));
    }
    return message;
  },
  function lengthsOff(message, random) {
    return at16(message, random, (was) => was + random.pick([-8, -1, 1, 8]));
  },
  function lengthsWrong(message, random) {
    return at16(message, random, () => random.pick(wrongs));
  },
  function zeroed(message, random) {
    const start = random.below(message.length);
    return message.fill(0, start, start + 1 + random.below(16));
  },
  function spliced(message, random) {
    const other = random.pick(corpus);
    const joined = new Uint8Array(Math.min(0xffff, message.length + other.length));
    const cut = 8 + random.below(message.length - 7);
    joined.set(message.subarray(0, cut));
    joined.set(other.subarray(random.below(other.length)).subarray(0, joined.length - cut), cut);
    return joined;
  },
  function repeated(message, random) {
    const from = 8 + random.below(Math.max(1, message.length - 8));
    const part = message.slice(from, from + 8 * (1 + random.below(6)));
    const out = new Uint8Array(Math.min(0xffff, message.length + part.length));
    out.set(message.subarray(0, from));
    out.set(part.subarray(0, out.length - from), from);
    out.set(message.subarray(from, out.length - part.length), from + part.length);
    return out;
  },
];

function at16(message: Uint8Array<ArrayBuffer>, random: SeededRandom, change: (was: number) => number): Uint8Array<ArrayBuffer> {
  if (message.length < 10) return message;
  const at = 8 + random.below(message.length - 9);
  const view = new DataView(message.buffer);
  view.setUint16(at, change(view.getUint16(at)) & 0xffff);
  return message;
}

/** A message of the corpus with one to three mutations. */
export function mutated(random: SeededRandom): Uint8Array<ArrayBuffer> {
  let message = Uint8Array.from(random.pick(corpus));
  const [version, type] = message;
  for (let times = 1 + (random.below(4) === 0 ? random.below(3) : 0); times > 0; times--) message = random.pick(mutations)(message, random);
  if (random.below(20) !== 0) [message[0], message[1]] = [version ?? 6, type ?? 0];
  new DataView(message.buffer).setUint16(2, message.length);
  return message;
}
