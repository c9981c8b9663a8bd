import { existsSync } from 'node:fs';
import { InvalidArgumentError, Option } from 'commander';
import { SeineError } from '../src/base/errors/seine-error.ts';
import type { Family } from '../src/base/net/ip.ts';
import { ovsSchema } from './node/ovs.ts';

export const defaultLabDir = '/run/seine-lab';

/** @throws SeineError `INVALID_INPUT` if the process is not root */
export function needRoot(): void {
  if (process.getuid?.() !== 0) throw new SeineError('INVALID_INPUT', 'a lab needs root: it makes network namespaces and bridges');
  if (!existsSync(ovsSchema)) throw new SeineError('INVALID_INPUT', 'Open vSwitch is not installed; run `npm run setup`');
}

export function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(2).padStart(6)} s`;
}

export function wholeNumber(text: string): number {
  if (!/^\d+$/.test(text)) throw new InvalidArgumentError('a whole number is wanted.');
  return Number(text);
}

export function commaSeparated(text: string): string[] {
  return text.split(',').map((part) => part.trim());
}

export function familiesOption(about: string): Option {
  const both: Family[] = ['ipv4', 'ipv6'];
  return new Option('--families <list>', about).argParser(families).default(both, both.join(','));
}

function families(text: string): Family[] {
  return commaSeparated(text).map((part) => {
    if (part !== 'ipv4' && part !== 'ipv6') throw new InvalidArgumentError('ipv4, ipv6 or ipv4,ipv6 is wanted.');
    return part;
  });
}

export function oneOf(...allowed: string[]): (text: string) => string {
  return (text) => {
    if (!allowed.includes(text)) throw new InvalidArgumentError(`one of ${allowed.join(', ')} is wanted.`);
    return text;
  };
}
