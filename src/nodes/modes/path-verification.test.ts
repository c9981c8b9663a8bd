import { expect, it } from 'vitest';
import { PathVerification } from './path-verification.ts';

const [works, lost, away] = [
  { direct: true, transport: true },
  { direct: false, transport: true },
  { direct: false, transport: false },
];

function setUp() {
  const time = { ms: 0 };
  const paths = new PathVerification(() => time.ms);
  const after = (ms: number, ...rounds: readonly (typeof works)[]): string => {
    time.ms += ms;
    for (const round of rounds) paths.note('n2', 'ipv4', round);
    return paths.resultOf('n2', 'ipv4');
  };
  return { paths, after };
}

it('of a path is unknown until the first answer', () => {
  const { paths, after } = setUp();
  expect(after(0)).toBe('unknown');
  expect(after(0, lost, lost)).toBe('unknown');
  expect(after(0, works)).toBe('answered');
  expect(paths.resultOf('n2', 'ipv6')).toBe('unknown');
});

it('avoids a path after three losses in a row, each time for twice as long, up to an hour', () => {
  const { after } = setUp();
  expect(after(0, works, lost, lost, works, lost, lost)).toBe('answered');
  expect(after(0, lost)).toBe('lost');
  for (const avoidedMs of [300_000, 600_000, 1_200_000, 2_400_000, 3_600_000, 3_600_000]) {
    expect(after(avoidedMs - 1, works)).toBe('lost');
    expect(after(1, works)).toBe('answered');
    expect(after(0, lost, lost, lost)).toBe('lost');
  }
});

it('does not count losses of a peer that does not answer at all', () => {
  const { after } = setUp();
  expect(after(0, works, away, away, away, away)).toBe('answered');
});

it('keeps the path of a previous agent until its echoes are lost', () => {
  const { paths, after } = setUp();
  paths.inherit('n2', 'ipv4');
  expect(after(0)).toBe('answered');
  expect(after(0, lost, lost, lost)).toBe('lost');
  paths.inherit('n2', 'ipv4');
  expect(after(0)).toBe('lost');
  paths.forget('n2');
  expect(after(0)).toBe('unknown');
});

it('calls a path new until it has a result, for ten tests', () => {
  const { paths, after } = setUp();
  const isNew = (): boolean => paths.isNew('n2', 'ipv4');
  expect(isNew()).toBe(true);
  after(0, ...Array.from({ length: 9 }, () => away));
  expect(isNew()).toBe(true);
  after(0, away);
  expect(isNew()).toBe(false);
  paths.forget('n2');
  expect(isNew()).toBe(true);
  after(0, works);
  expect(isNew()).toBe(false);
});
