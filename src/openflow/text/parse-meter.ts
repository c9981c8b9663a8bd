import { type Meter, type MeterBand, meterFlag } from '../meter.ts';
import { meterFlagOf, meterIdOf } from './meter-text.ts';
import { badText, cutAt, parseNumber, splitTop } from './scan.ts';

/**
 * Reads one meter of ovs-ofctl(8) "Meter Syntax", as `add-meter` takes it or, on one line, `dump-meters` prints it.
 *
 * @throws SeineError `INVALID_INPUT` that quotes what was not understood
 */
export function parseMeter(text: string): Meter {
  const [head = '', ...rest] = text.split(/,?\s*\bbands?=/);
  let id: number | undefined;
  let flags = 0;
  for (const part of splitTop(head, ', \t')) {
    const { before, after } = cutAt(part, '=');
    const flag = meterFlagOf(part);
    if (before === 'meter' && after !== undefined) id = meterIdOf(after) ?? parseNumber(after, 0xffff_0000, 'meter');
    else if (flag !== undefined) flags |= flag;
    else throw badText('part of a meter', part);
  }
  if (id === undefined) throw badText('meter without meter=', text);
  if ((flags & (meterFlag.kilobits | meterFlag.packets)) === 0) throw badText('meter with neither kbps nor pktps', text);
  const bands = rest.flatMap((each) => parseBands(each, (flags & meterFlag.burst) !== 0));
  if (bands.length === 0) throw badText('meter without bands', text);
  return { id, flags, bands };
}

interface BandParts {
  type: string;
  rate?: number;
  burst?: number;
  level?: number;
}

/** Each `type=` begins a band. */
function parseBands(text: string, hasBurst: boolean): MeterBand[] {
  const found: BandParts[] = [];
  for (const part of splitTop(text, ', \t')) {
    const { before, after = '' } = cutAt(part, '=');
    if (before === 'type') found.push({ type: after });
    else if (before === 'burst_size' && !hasBurst) throw badText('burst_size of a meter without burst', part);
    else setPart(found.at(-1), before, after, part);
  }
  return found.map(bandOf);
}

function setPart(band: BandParts | undefined, name: string, value: string, part: string): void {
  if (band === undefined) throw badText('band without type=', part);
  if (name === 'rate') band.rate = parseNumber(value, 0xffff_ffff, name);
  else if (name === 'burst_size') band.burst = parseNumber(value, 0xffff_ffff, name);
  else if (name === 'prec_level') band.level = parseNumber(value, 0xff, name);
  else throw badText('part of a band', part);
}

function bandOf({ type, rate, burst = 0, level }: BandParts): MeterBand {
  if (rate === undefined) throw badText('band without rate=', `type=${type}`);
  if (type === 'drop') return { kind: 'drop', rate, burst };
  if (type !== 'dscp_remark') throw badText('no kind of band', type);
  if (level === undefined) throw badText('band without prec_level=', `type=${type}`);
  return { kind: 'dscpRemark', rate, burst, precedenceLevels: level };
}
