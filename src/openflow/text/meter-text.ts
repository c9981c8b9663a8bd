import { ALL_METERS, type Meter, type MeterBand, meterFlag } from '../meter.ts';

const flagWords = [
  [meterFlag.kilobits, 'kbps'],
  [meterFlag.packets, 'pktps'],
  [meterFlag.burst, 'burst'],
  [meterFlag.stats, 'stats'],
] as const;

/** Meters with names: those of the slow path, of the controller, and all. Source: `ofp_meter`. */
const reserved = new Map<number, string>([
  [0xffff_fffd, 'slowpath'],
  [0xffff_fffe, 'controller'],
  [ALL_METERS, 'all'],
]);

export function printMeterId(id: number): string {
  return reserved.get(id) ?? String(id);
}

export function meterIdOf(word: string): number | undefined {
  return [...reserved].find(([, each]) => each === word)?.[0];
}

/** Returns the flag of a meter by its word. */
export function meterFlagOf(word: string): number | undefined {
  return flagWords.find(([, each]) => each === word)?.[0];
}

/** Prints `meter=1 kbps burst bands=`, the start of a meter in ovs-ofctl. */
export function printMeterHead(id: number, flags: number): string {
  return [`meter=${printMeterId(id)}`, ...flagNames(flags), 'bands='].join(' ');
}

function flagNames(flags: number): string[] {
  return flagWords.filter(([flag]) => (flags & flag) !== 0).map(([, word]) => word);
}

/** Prints `type=drop rate=1000 burst_size=2000`: the burst only if the meter's flags include it. */
export function printBand(band: MeterBand, flags: number): string {
  const parts = [`type=${band.kind === 'drop' ? 'drop' : 'dscp_remark'}`, `rate=${band.rate}`];
  if ((flags & meterFlag.burst) !== 0) parts.push(`burst_size=${band.burst}`);
  if (band.kind === 'dscpRemark') parts.push(`prec_level=${band.precedenceLevels}`);
  return parts.join(' ');
}

/** Prints one meter like `ovs-ofctl dump-meters`, on one line. */
export function printMeter({ id, flags, bands }: Meter): string {
  return [printMeterHead(id, flags), ...bands.map((band) => printBand(band, flags))].join(' ');
}

/** Prints one meter in the form that `ovs-ofctl add-meter` reads. */
export function printMeterSpec({ id, flags, bands }: Meter): string {
  const inside = bands.map((band) => printBand(band, flags).replaceAll(' ', ',')).join(',');
  return [`meter=${printMeterId(id)}`, ...flagNames(flags), ...(bands.length === 0 ? [] : [`bands=${inside}`])].join(',');
}
