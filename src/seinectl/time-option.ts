import { InvalidArgumentError } from 'commander';
import { secondsOf } from './words.ts';

const secondsMax = 86_400;

/** Parses `--for` of a change that ends by itself. @returns seconds. @throws InvalidArgumentError */
export function secondsUpToADay(text: string): number {
  const found = secondsOf(text);
  if (found === undefined || found < 1 || found > secondsMax)
    throw new InvalidArgumentError('must be a whole number with s, m or h, e.g. 10m; at most a day.');
  return found;
}
