import { Option } from 'commander';
import { stringify as toYaml } from 'yaml';
import { safeText } from './escape.ts';
import type { Terminal } from './terminal.ts';

export type OutputForm = 'table' | 'wide' | 'json' | 'yaml';

export function outputOption(forms: readonly OutputForm[]): Option {
  return new Option('-o, --output <form>', 'output format').choices(forms).default('table' satisfies OutputForm);
}

/** Prints a value unchanged, for programs. */
export function print(terminal: Terminal, value: unknown, form: 'json' | 'yaml'): void {
  terminal.line(
    safeText(
      form === 'json' ? JSON.stringify(value, undefined, 2) : toYaml(value, { lineWidth: 0, aliasDuplicateObjects: false }).trimEnd(),
    ),
  );
}
