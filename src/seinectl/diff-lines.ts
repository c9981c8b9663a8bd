import type { Entry } from '../api/entry.ts';
import { safeLine } from './escape.ts';
import type { Paint } from './paint.ts';
import { failureText, ownersText } from './words.ts';

/**
 * Lines for drift: `+` is missing, `-` is unexpected, `~` is different; the owner follows `#`. Flows and groups have the syntax of
 * ovs-ofctl, ports of ovs-vsctl, the rest of ip.
 */
export function diffLines(entries: readonly Entry[], paint: Paint): string[] {
  return entries.flatMap((entry) => entryLines(entry, paint));
}

function entryLines({ state, wanted, actual, owners, error }: Entry, paint: Paint): string[] {
  const who = paint('quiet', `# ${safeLine(owners.length === 0 ? 'no owner' : ownersText(owners))}`);
  const why = error ? [paint('warning', `  # ${safeLine(failureText(error))}`)] : [];
  switch (state) {
    case 'missing':
      return [`${paint('good', `+ ${shown(wanted)}`)} ${who}`, ...why];
    case 'extra':
      return [
        `${paint('bad', `- ${shown(actual)}`)} ${owners.length === 0 ? paint('quiet', '# unexpected') : `${who} (no longer desired)`}`,
        ...why,
      ];
    case 'changed':
      return [`${paint('warning', `~ ${shown(wanted)}`)} ${who}`, `  ${paint('quiet', 'now:')} ${shown(actual)}`, ...why];
    case 'ok':
    case 'learned':
      return [];
  }
}

function shown(text: string | null): string {
  const [first = '', ...rest] = (text ?? '').split('\n');
  return safeLine(first) + (rest.length > 0 ? ` … (${rest.length + 1} lines)` : '');
}
