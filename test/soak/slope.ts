/** A figure at one moment. */
export interface Sample {
  readonly hours: number;
  readonly value: number;
}

export interface Slope {
  /** Units of the figure per hour. */
  readonly perHour: number;
  /** Half of the 95 % confidence interval of the slope. */
  readonly within: number;
  readonly blocks: number;
}

/**
 * Maximum number of means of adjacent samples: memory rises and falls with the garbage collector, so that single samples overstate the
 * precision.
 */
const blocksMost = 24;
const blocksLeast = 5;
/** Quantiles 0.975 of Student's distribution, by degrees of freedom from 1 on. */
const student = [
  12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.16, 2.145, 2.131, 2.12, 2.11, 2.101, 2.093, 2.086,
  2.08, 2.074,
];

/** Least squares through the means of blocks of samples, in the order of time. @returns undefined for fewer samples than make five blocks */
export function slopeOf(samples: readonly Sample[]): Slope | undefined {
  const blocks = Math.min(blocksMost, Math.floor(samples.length / 2));
  if (blocks < blocksLeast) return undefined;
  const means = Array.from({ length: blocks }, (_, at) => meanOf(blockOf(samples, at, blocks)));
  const centre = meanOf(means);
  const spread = sum(means.map(({ hours }) => (hours - centre.hours) ** 2));
  const perHour = sum(means.map(({ hours, value }) => (hours - centre.hours) * (value - centre.value))) / spread;
  const rest = sum(means.map(({ hours, value }) => (value - centre.value - perHour * (hours - centre.hours)) ** 2));
  const freedom = blocks - 2;
  const within = (student[freedom - 1] ?? 1.96) * Math.sqrt(rest / freedom / spread);
  return { perHour, within, blocks };
}

function blockOf(samples: readonly Sample[], at: number, blocks: number): readonly Sample[] {
  return samples.slice(Math.floor((at * samples.length) / blocks), Math.floor(((at + 1) * samples.length) / blocks));
}

function meanOf(samples: readonly Sample[]): Sample {
  const of = (key: keyof Sample) => sum(samples.map((sample) => sample[key])) / samples.length;
  return { hours: of('hours'), value: of('value') };
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
