import { withoutCode } from '../base/errors/seine-error.ts';

/** Length of a container ID's prefix that identifies it on a node. */
const ID_LENGTH = 12;

/** Owner for a table: container IDs cut to the part that users compare. */
export function shortOwner(owner: string): string {
  return owner.replace(/@([0-9a-f]{12})[0-9a-f]{20,}/, (_, start: string) => `@${start.slice(0, ID_LENGTH)}`);
}

export function ownersText(owners: readonly string[], most = 2): string {
  const named = owners.slice(0, most).map(shortOwner);
  return owners.length > most ? `${named.join(', ')} and ${owners.length - most} more` : named.join(', ');
}

const units = [
  { name: 'd', seconds: 86_400 },
  { name: 'h', seconds: 3_600 },
  { name: 'm', seconds: 60 },
  { name: 's', seconds: 1 },
] as const;

/** `3d 4h`, `12m 5s`, `36s`: the two largest units. */
export function duration(seconds: number): string {
  const first = units.findIndex((unit) => seconds >= unit.seconds);
  if (first === -1) return '0s';
  let rest = Math.floor(seconds);
  const parts = units.slice(first, first + 2).flatMap(({ name, seconds: each }) => {
    const count = Math.floor(rest / each);
    rest -= count * each;
    return count > 0 ? [`${count}${name}`] : [];
  });
  return parts.join(' ');
}

/** Parses `90s`, `10m` or `2h`; undefined for other text. */
export function secondsOf(text: string): number | undefined {
  const [, digits, name] = /^([0-9]{1,6})([smhd])$/.exec(text) ?? [];
  const unit = units.find((each) => each.name === name);
  return unit && Number(digits) * unit.seconds;
}

/** `1 Mbit`, `1.5 Gbit`, `800 bit`: by thousands, with up to three decimal places. */
export function bitsText(bits: number): string {
  const power = bits < 1_000 ? 0 : Math.min(4, Math.floor(Math.log10(bits) / 3));
  return `${Number((bits / 1_000 ** power).toFixed(3))} ${['', 'k', 'M', 'G', 'T'][power] ?? ''}bit`;
}

export function count(number: number, one: string, many = `${one}s`): string {
  return `${number} ${number === 1 ? one : many}`;
}

export function failureText(failure: { readonly message: string; readonly ageSeconds?: number } | undefined): string {
  if (!failure) return '';
  const message = withoutCode(failure.message);
  return failure.ageSeconds === undefined ? message : `${message} (${duration(failure.ageSeconds)} ago)`;
}
