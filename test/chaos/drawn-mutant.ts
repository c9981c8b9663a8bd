import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './lab.ts';
import { Random } from './random.ts';

/** An agent with a fault that a run must detect. Text of one file, which must occur once, and its replacement. */
export interface Mutant {
  readonly what: string;
  readonly file: string;
  readonly from: string;
  readonly to: string;
}

/** Rooms in which an agent decides the state of a node; reporting is not compared. */
const rooms = [
  'pods/network',
  'dataplane/compile',
  'dataplane/desired',
  'dataplane/reconcile',
  'dataplane/targets',
  'policy/controller',
  'policy/engine',
  'kubernetes',
  'nodes',
  'services',
];
/** Files of tests, and those that only tests use. */
const notOurs = /\.test\.ts$|fake|scene|scripted|entry\.ts$/;

/** Mutations of a line, each with the pattern it requires. */
const faults: readonly { readonly what: string; readonly at: RegExp; readonly to: string }[] = [
  { what: 'a comparison is turned', at: / === (?!undefined|null)/, to: ' !== ' },
  { what: 'a comparison is turned', at: / !== (?!undefined|null)/, to: ' === ' },
  { what: 'a thing is not forgotten', at: /^ +(?:this\.)?#?[\w.#]+\.delete\(.*\);$/, to: '' },
  { what: 'no subscriber is notified', at: /^ +(?:this\.)?#?[\w.#]+\.(?:emit|notify|changed|dirty|mark|wake)\(.*\);$/, to: '' },
  { what: 'no listener is registered', at: /^ +(?:this\.)?#?[\w.#]+\.(?:on|watch|subscribe|follow)\(.*\);$/, to: '' },
];

/** One mutated line of the agent, drawn by a seed among all possible ones. */
export function drawMutant(seed: number): Mutant {
  const random = new Random(seed, 0);
  const fault = random.pick(faults);
  const places = sources().flatMap((file) => {
    const text = readFileSync(join(root, 'src', file), 'utf8');
    const lines = text.split('\n').filter((line) => fault.at.test(line) && !/^ *(?:\/\/|\*|\/\*)/.test(line));
    return lines.filter((line) => text.split(line).length === 2).map((line) => ({ file, line }));
  });
  const { file, line } = random.pick(places);
  return { what: `${fault.what}: ${line.trim()}`, file, from: line, to: line.replace(fault.at, fault.to) };
}

function sources(): readonly string[] {
  const inRoom = (room: string): readonly string[] =>
    readdirSync(join(root, 'src', room), { recursive: true, encoding: 'utf8' }).map((name) => join(room, name));
  return rooms
    .flatMap(inRoom)
    .filter((name) => name.endsWith('.ts') && !notOurs.test(name))
    .toSorted();
}
