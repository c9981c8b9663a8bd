import { InvalidArgumentError } from 'commander';
import { timeIn } from './timeline/timeline-query.ts';
import { secondsOf } from './words.ts';

const secondsMax = 86_400;

/** Parses `--for` of a change that ends by itself. @returns seconds. @throws InvalidArgumentError */
export function secondsUpToADay(text: string): number {
  const found = secondsOf(text);
  if (found === undefined || found < 1 || found > secondsMax)
    throw new InvalidArgumentError('must be a whole number with s, m or h, e.g. 10m; at most a day.');
  return found;
}

/** Parses a time before now, or a point in time. @returns milliseconds since the epoch. @throws InvalidArgumentError */
export function timeOption(text: string): number {
  const ms = timeIn(text, Date.now());
  if (ms === undefined)
    throw new InvalidArgumentError('is neither a duration such as 90s, 30m, 2h or 3d, nor a time such as 2026-11-29T14:02:10Z.');
  return ms;
}
